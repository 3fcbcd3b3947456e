// Package image makes images present on the node: pull policy, one pull per image at a time, credentials, and the
// back-off of pulls that fail.
package image

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/credential"
)

// Reasons why a container waits for its image, as they are in its status.
const (
	ErrImagePull      = "ErrImagePull"
	ImagePullBackOff  = "ImagePullBackOff"
	ErrImageNeverPull = "ErrImageNeverPull"
	ErrImageInspect   = "ImageInspectError"
	ErrInvalidName    = "InvalidImageName"
	ErrRegistry       = "RegistryUnavailable"
	ErrSignature      = "SignatureValidationFailed"
)

// Pull back-off: the first wait and the longest one.
const (
	firstWait = 10 * time.Second
	lastWait  = 300 * time.Second
)

// Event records an event for the user.
type Event func(eventType, reason, message string)

// Image is an image that is present.
type Image struct {
	// Ref names the image in CreateContainer.
	Ref string
	// UID or Username is the user of the image; nil and empty if it names none.
	UID      *int64
	Username string
}

// Request asks for one image.
type Request struct {
	Name    string
	Policy  v1.PullPolicy
	Secrets []v1.Secret
	PodUID  string
	// For is the pod as programs of the node that know logins are told.
	For credential.Pod
	// Pod names the pod for the runtime's own records; may be nil.
	Pod *cri.PodSandboxConfig
	// Handler is the runtime's handler that the pod's RuntimeClass names; empty: the default one. HandlerUnknown is
	// true if it could not be found. HostProcess is true if the container runs as a process of the Windows host.
	Handler                     string
	HandlerUnknown, HostProcess bool

	Event Event
}

// Error is a failure with its reason for the container's status and the time of the next try.
type Error struct {
	Reason  string
	RetryAt time.Time
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// limiter is a rate limit; kube.NewLimiter makes one. Wait returns once the next one may begin, or ctx's error.
type limiter interface {
	Wait(ctx context.Context) error
}

// providers are programs of the node that know logins; kubelet/credential implements it. They are asked for the full
// name of an image without tag and digest, as upstream's kubelet asks them.
type providers interface {
	Logins(ctx context.Context, image string, pod credential.Pod) []credential.Found
	// ByAccount reports whether what they know of an image depends on the pod's service account.
	ByAccount(image string) bool
}

// counter counts what is done for pods; kubelet/meter implements it.
type counter interface {
	// Pulled counts a pull of an image of that many bytes, 0 if that is not known, with the wait for its turn.
	Pulled(size uint64, took time.Duration)
	// Ensured counts a request: whether the image was present (true, false or unknown), by which policy, and whether
	// it had to be pulled.
	Ensured(present, policy, pulled string)
}

// Puller makes images present. It is safe for concurrent use.
type Puller struct {
	client cri.ImageServiceClient
	slots  chan struct{}
	now    func() time.Time
	// NodeConfigs are folders in which a config.json may hold credentials for all pods. Set it before the first use.
	NodeConfigs []string
	// Providers know logins of images beside those of pods and of the node; nil for nobody. Set it before the first
	// use.
	Providers providers
	// Verify decides which images that are present a pod may have; nil gives all to everybody. Set it before the first
	// use.
	Verify *Verifier
	// Rate limits how many pulls begin per second; nil is no limit. Set it before the first use. A pull over the limit
	// waits; upstream's fails instead and is tried again ten seconds later.
	Rate limiter
	// Builds checks images before they are pulled; nil checks nothing. Set it before the first use.
	Builds *Builds
	// Count counts what is done; nil counts nothing. Set it before the first use.
	Count counter

	mu      sync.Mutex
	flights map[string]*flight
	waits   map[string]wait // by pod UID and image
}

// flight is a pull that is under way; all requests for the image share it.
type flight struct {
	// checked is closed once it is known whether the node can run the image; unfit is why not, or nil.
	checked chan struct{}
	unfit   error
	done    chan struct{}
	ref     string
	err     error
	size    uint64
}

// wait is the back-off of a pull that failed.
type wait struct {
	delay time.Duration
	until time.Time
	last  string
	why   string
}

// New makes a Puller that pulls at most parallel images at once; zero means 5.
func New(conn grpc.ClientConnInterface, parallel int) *Puller {
	if parallel <= 0 {
		parallel = 5
	}
	return &Puller{client: cri.NewImageServiceClient(conn), slots: make(chan struct{}, parallel), now: time.Now,
		flights: map[string]*flight{}, waits: map[string]wait{}}
}

// Client returns the image service itself, for statistics.
func (p *Puller) Client() cri.ImageServiceClient { return p.client }

// Ensure returns once the image is present, or an *Error.
func (p *Puller) Ensure(ctx context.Context, r Request) (Image, error) {
	name, err := Normalize(r.Name)
	if err != nil {
		r.Event(v1.EventTypeWarning, "InspectFailed",
			fmt.Sprintf("Failed to apply default image tag %q: %v", r.Name, err))
		return Image{}, &Error{ErrInvalidName, p.now().Add(firstWait),
			fmt.Errorf("failed to apply default image tag %q: %w", r.Name, err)}
	}

	there, must := "unknown", "unknown"
	rule := policy(r.Policy, name)
	defer func() {
		if p.Count != nil {
			p.Count.Ensured(there, strings.ToLower(string(rule)), must)
		}
	}()
	present, err := p.status(ctx, name)
	if err != nil {
		r.Event(v1.EventTypeWarning, "InspectFailed", fmt.Sprintf("Failed to inspect image %q: %v", name, err))
		return Image{}, &Error{ErrImageInspect, p.now().Add(firstWait),
			fmt.Errorf("failed to inspect image %q: %w", name, err)}
	}

	again := present != nil && p.again(ctx, name, present.Ref, r)
	there = strconv.FormatBool(present != nil)
	must = strconv.FormatBool(rule == v1.PullAlways || rule == v1.PullIfNotPresent && (present == nil || again))
	switch rule {
	case v1.PullNever:
		if present == nil || again {
			text := fmt.Sprintf("Container image %q is not present with pull policy of Never", name)
			r.Event(v1.EventTypeWarning, ErrImageNeverPull, text)
			return Image{}, &Error{ErrImageNeverPull, p.now().Add(firstWait), fmt.Errorf("%s", text)}
		}
	case v1.PullIfNotPresent:
		if present == nil || again {
			return p.pull(ctx, name, r)
		}
	default:
		return p.pull(ctx, name, r)
	}
	r.Event(v1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", name))
	return *present, nil
}

// again reports whether an image that is present must be pulled for the pod all the same. Programs of the node are
// asked only if what the pod has itself does not do.
func (p *Puller) again(ctx context.Context, name, ref string, r Request) bool {
	if p.Verify == nil {
		return false
	}
	have := ownedLogins(name, r.Secrets)
	if !p.Verify.must(name, ref, have) {
		return false
	}
	if p.Providers == nil || !p.Providers.ByAccount(repositoryOf(name)) {
		return true
	}
	return p.Verify.must(name, ref, append(have, p.found(ctx, name, r.For)...))
}

func policy(p v1.PullPolicy, name string) v1.PullPolicy {
	if p != "" {
		return p
	}
	if strings.HasSuffix(name, ":latest") {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// Normalize checks an image name and adds :latest if it has neither a tag nor a digest. It adds no registry.
func Normalize(name string) (string, error) {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", fmt.Errorf("couldn't parse image name %q: %w", name, err)
	}
	if reference.IsNameOnly(ref) {
		return name + ":latest", nil
	}
	return name, nil
}

// status returns the image as the runtime has it, and nil without an error if the runtime does not have it.
func (p *Puller) status(ctx context.Context, name string) (*Image, error) {
	resp, err := p.client.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if err != nil {
		return nil, err
	}
	if resp.Image == nil {
		return nil, nil
	}
	img := &Image{Ref: resp.Image.Id, Username: resp.Image.Username}
	if resp.Image.Uid != nil {
		uid := resp.Image.Uid.Value
		img.UID = &uid
	}
	return img, nil
}

// pull pulls the image for the pod, or waits for a pull of the same image that is under way. It returns an *Error at
// once during the back-off of an earlier failure. Back-offs are per pod and image, so that a pod with other
// credentials is not held up.
//
// A failure reports two reasons to the user in turn, as upstream's kubelet does: its own, and from the next try on
// ImagePullBackOff.
func (p *Puller) pull(ctx context.Context, name string, r Request) (Image, error) {
	key := r.PodUID + "/" + name

	p.mu.Lock()
	w := p.waits[key]
	p.mu.Unlock()
	if now := p.now(); now.Before(w.until) {
		text := fmt.Sprintf("Back-off pulling image %q", name)
		r.Event(v1.EventTypeNormal, "BackOff", text)
		return Image{}, &Error{ImagePullBackOff, w.until, fmt.Errorf("%s: %s: %s", text, w.why, w.last)}
	}

	began := p.now()
	f := p.share(ctx, name, r)
	if !f.wait(ctx, name, r.Event) {
		return Image{}, &Error{ErrImagePull, p.now(), ctx.Err()}
	}

	if f.err != nil {
		why, said := reasonOf(name, f.err)
		p.mu.Lock()
		w.delay = min(max(2*w.delay, firstWait), lastWait)
		w.until = p.now().Add(w.delay)
		w.last = said.Error()
		w.why = why
		p.waits[key] = w
		p.mu.Unlock()
		r.Event(v1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", name, f.err))
		// RetryAt is earlier than the end of the back-off: that attempt only changes the reason to ImagePullBackOff.
		return Image{}, &Error{why, p.now().Add(time.Second), said}
	}

	p.mu.Lock()
	delete(p.waits, key)
	p.mu.Unlock()
	took := p.now().Sub(began).Round(time.Millisecond)
	if p.Count != nil {
		p.Count.Pulled(f.size, took)
	}
	r.Event(v1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", name, took,
			took, f.size))

	img, err := p.status(ctx, name)
	if err != nil || img == nil { // the pull succeeded all the same; only the image's user is not known
		return Image{Ref: f.ref}, nil
	}
	return *img, nil
}

// wait returns true once the pull has ended, and false if ctx ends before. It sends the event Pulling when the check
// of the image has passed, so that there is none for an image that is not pulled.
func (f *flight) wait(ctx context.Context, name string, event Event) bool {
	select {
	case <-f.checked:
	case <-ctx.Done():
		return false
	}
	if f.unfit == nil {
		event(v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", name))
	}

	select {
	case <-f.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// reasonOf returns the reason and the error for a container's status. The texts of some of the runtime's errors begin
// with the reason.
func reasonOf(name string, err error) (reason string, said error) {
	text := status.Convert(err).Message()
	for prefix, what := range map[string]string{ErrRegistry: "the registry is unavailable",
		ErrSignature: "the signature validation failed"} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return prefix, fmt.Errorf("image pull failed for %s because %s%s", name, what, rest)
		}
	}
	return ErrImagePull, err
}

// Forget drops the back-offs of a pod that is gone.
func (p *Puller) Forget(podUID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.waits, func(key string, _ wait) bool { return strings.HasPrefix(key, podUID+"/") })
}

// share returns the pull of the image with these credentials that is under way, or starts one. A pull goes on if the
// pod that asked for it ends.
func (p *Puller) share(ctx context.Context, name string, r Request) *flight {
	logins := ownedLogins(name, append(slices.Clone(r.Secrets), nodeSecrets(p.NodeConfigs)...))
	key := name
	if len(logins) > 0 {
		key += "/" + r.PodUID
	}
	if p.Providers != nil && p.Providers.ByAccount(repositoryOf(name)) {
		key += "/" + r.PodUID
	}
	w := wantOf(r)
	if p.Builds != nil {
		key += fmt.Sprintf("/%d", w.isolation)
	}
	if r.Handler != "" {
		key += "/" + r.Handler
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.flights[key]; f != nil {
		return f
	}

	f := &flight{checked: make(chan struct{}), done: make(chan struct{})}
	p.flights[key] = f

	go func() {
		ctx := context.WithoutCancel(ctx)
		if p.Providers != nil {
			logins = append(logins, p.found(ctx, name, r.For)...)
		}
		f.unfit = p.Builds.check(ctx, name, authsOf(logins), w)
		close(f.checked)
		if f.err = f.unfit; f.err == nil {
			p.pullInTurn(ctx, f, pullSpec{name, r.Handler, logins, r.Pod})
			f.err = p.Builds.explainPull(ctx, name, authsOf(logins), w, f.err)
		}

		p.mu.Lock()
		delete(p.flights, key)
		p.mu.Unlock()
		close(f.done)
	}()
	return f
}

// pullInTurn waits until another pull may begin, pulls an image and keeps the outcome in f.
func (p *Puller) pullInTurn(ctx context.Context, f *flight, o pullSpec) {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()

	if p.Verify != nil {
		if f.err = p.Verify.begin(o.name); f.err != nil { // else the image would be anybody's
			return
		}
	}
	by, err := p.pullOnce(ctx, f, o)
	if f.err = err; err != nil {
		if p.Verify != nil {
			p.Verify.failed(o.name)
		}
		return
	}

	id := f.ref
	if st, err := p.client.ImageStatus(ctx,
		&cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: o.name}}); err == nil && st.GetImage() != nil {
		f.size, id = st.Image.Size, st.Image.Id
	}
	if p.Verify == nil {
		return
	}
	if err := p.Verify.succeeded(o.name, id, by); err != nil { // the next pod pulls it once more
		klog.FromContext(ctx).Error(err, "It cannot be remembered by whose login an image was pulled", "image", o.name)
	}
}

// pullSpec is what the runtime is asked to pull.
type pullSpec struct {
	name    string
	handler string  // which the image is for: the runtime may keep images by handler (containerd's snapshotters)
	logins  []owned // tried in turn; none: without a login
	box     *cri.PodSandboxConfig
}

// pullOnce asks the runtime to pull the image, with one login after the other until one works. It keeps the runtime's
// name of the image in f, and returns that login, or the error of the last one.
func (p *Puller) pullOnce(ctx context.Context, f *flight, o pullSpec) (by owned, err error) {
	logins := o.logins
	if len(logins) == 0 {
		logins = []owned{{}}
	}
	for _, l := range logins {
		if p.Rate != nil {
			if err := p.Rate.Wait(ctx); err != nil {
				return owned{}, err
			}
		}
		var resp *cri.PullImageResponse
		resp, err = p.client.PullImage(ctx,
			&cri.PullImageRequest{Image: &cri.ImageSpec{Image: o.name, RuntimeHandler: o.handler}, Auth: l.auth,
				SandboxConfig: o.box})
		if err == nil {
			f.ref = resp.ImageRef
			return l, nil
		}
	}
	return owned{}, err
}
