package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
)

// Builds finds out, before a pull, whether a Windows node can run an image at all. It only asks the registry for the
// index of the image. If that gives no certain answer, the pull goes on and the runtime decides.
type Builds struct {
	// Node is this node.
	Node winbuild.Host
	// Registry returns the platforms that an image has variants for.
	Registry func(ctx context.Context, image string, login registry.Login) (winbuild.Image, error)
	// Nodes lists the cluster's Windows nodes, so that an event can name those that run the image; nil if there is no
	// cluster.
	Nodes func(ctx context.Context) ([]winbuild.Host, error)
	// Handlers returns the names of the runtime's handlers, or nothing if they are not known. It may be nil.
	Handlers func(ctx context.Context) []string

	mu   sync.Mutex
	away map[string]time.Time // registries that are not asked, by host, with the end of that
}

const (
	// askTimeout bounds the questions about one image. Registries usually answer within a second. One that cannot be
	// reached must not delay pods for long, because the runtime may have a mirror for it.
	askTimeout = 5 * time.Second
	// awayAfter and awayFor: a registry is not asked for awayFor after a question that failed and took longer than
	// awayAfter.
	awayAfter = time.Second
	awayFor   = time.Minute
	// maxNodes is how many nodes an event names. An event has room for 1024 characters.
	maxNodes = 5
)

// want is how a pod's container will run.
type want struct {
	isolation winbuild.Isolation
	handler   string // the runtime's handler; empty: the default one
}

func wantOf(r Request) want {
	w := want{isolation: winbuild.IsolationOf(r.Handler), handler: r.Handler}
	switch {
	case r.HandlerUnknown:
		w.isolation = winbuild.UnknownIsolation
	case r.HostProcess:
		w.isolation = winbuild.HostProcess
	}
	return w
}

// check returns an error if the node cannot run the image, and nil if it can or if that is not known.
func (b *Builds) check(ctx context.Context, name string, logins []*cri.AuthConfig, w want) error {
	if b == nil || w.isolation == winbuild.UnknownIsolation {
		return nil
	}
	image, ok := b.ask(ctx, name, logins)
	if !ok {
		return nil
	}

	answer := winbuild.Check(image, b.Node, w.isolation)
	if answer.Outcome == winbuild.Runs && w.isolation == winbuild.HyperV && b.lacks(ctx, w.handler) {
		// A handler that the runtime does not have cannot help an image that runs by Hyper-V only.
		answer = winbuild.Check(image, b.Node, winbuild.Process)
	}
	if answer.Outcome != winbuild.NotRun {
		return nil
	}
	return errors.New(b.explain(ctx, image, answer.Rule, w))
}

// ask asks the registry, with one login after the other until one is accepted. It returns false if there is no answer.
func (b *Builds) ask(ctx context.Context, name string, logins []*cri.AuthConfig) (winbuild.Image, bool) {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil || b.isAway(reference.Domain(ref)) {
		return winbuild.Image{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	if len(logins) == 0 {
		logins = []*cri.AuthConfig{nil}
	}
	began := time.Now()
	for _, auth := range logins {
		var image winbuild.Image
		if image, err = b.Registry(ctx, name, loginOf(auth)); err == nil {
			return image, true
		}
	}

	klog.FromContext(ctx).V(2).
		Info("The builds of an image are not known; it is pulled without a check", "image", name, "cause", err.Error())
	if time.Since(began) > awayAfter {
		b.setAway(reference.Domain(ref))
	}
	return winbuild.Image{}, false
}

func (b *Builds) isAway(host string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.away[host])
}

func (b *Builds) setAway(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away == nil {
		b.away = map[string]time.Time{}
	}
	b.away[host] = time.Now().Add(awayFor)
}

// lacks reports whether the runtime is known not to have a handler.
func (b *Builds) lacks(ctx context.Context, handler string) bool {
	known := b.handlers(ctx)
	return len(known) > 0 && !slices.Contains(known, handler)
}

// handlers returns the names of the runtime's handlers without the default one, whose name is empty.
func (b *Builds) handlers(ctx context.Context) []string {
	if b.Handlers == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(b.Handlers(ctx)), func(name string) bool { return name == "" })
}

// explain returns a text for the event: why the image does not run here, which images would, and which nodes run this
// one.
func (b *Builds) explain(ctx context.Context, image winbuild.Image, broken winbuild.Rule, w want) string {
	node := b.Node.Version.Build
	said := []string{
		"it was not pulled, because it is for " + image.Contents(),
		fmt.Sprintf("node %s is build %s and runs images of build %s", b.Node.Name, node,
			winbuild.List(winbuild.Fitting(node, winbuild.Process))),
		broken.Text,
	}
	if winbuild.Check(image, b.Node, winbuild.HyperV).Outcome == winbuild.Runs {
		said = append(said, b.hyperVHint(ctx, w))
	}
	return strings.Join(append(said, b.where(ctx, image, w)), "; ")
}

// hyperVHint returns a text on how a pod gets Hyper-V isolation on this node, or that it cannot.
func (b *Builds) hyperVHint(ctx context.Context, w want) string {
	known := b.handlers(ctx)
	var fit []string
	for _, h := range known {
		if winbuild.IsolationOf(h) == winbuild.HyperV {
			fit = append(fit, h)
		}
	}
	switch {
	case w.isolation == winbuild.HyperV:
		return fmt.Sprintf("the handler %s of the pod's RuntimeClass would give it, but the runtime has only %s",
			w.handler, strings.Join(known, ", "))
	case len(fit) > 0:
		return "a RuntimeClass with the handler " + fit[0] + " gives it"
	case len(known) > 0:
		return "the runtime has no handler that gives it, only " + strings.Join(known, ", ")
	}
	return "a RuntimeClass with such a handler gives it, if the runtime has one"
}

// where returns a text that names the nodes of the cluster that run the image.
func (b *Builds) where(ctx context.Context, image winbuild.Image, w want) string {
	if b.Nodes == nil {
		return "there is no cluster with other nodes"
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	nodes, err := b.Nodes(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return "which other nodes run it is not known: this kubelet may not list nodes"
	case err != nil:
		return "which other nodes run it is not known: " + err.Error()
	}

	var fit []string
	for _, n := range nodes {
		if n.Name != b.Node.Name && winbuild.Check(image, n, w.isolation).Outcome == winbuild.Runs {
			fit = append(fit, fmt.Sprintf("%s (build %d)", n.Name, n.Version.Build))
		}
	}
	if len(fit) == 0 {
		return "no Windows node of the cluster runs it"
	}
	slices.Sort(fit)
	if more := len(fit) - maxNodes; more > 0 {
		fit = append(fit[:maxNodes], fmt.Sprintf("%d more", more))
	}
	return "nodes that run it: " + strings.Join(fit, ", ")
}

// noVariant is part of the error of containerd for an index without an entry that it would take (core/images/image.go).
const noVariant = "no match for platform in manifest"

// explainPull adds advice to the runtime's error when a pod with Hyper-V isolation names an index (a manifest list)
// whose variant for an older build would run, but which the runtime refuses: to name that variant by its digest.
// containerd 2.3 compares an index with the host's own build whatever the handler is
// (internal/cri/server/images/image_pull.go), and pulls an image that is named by its digest without comparing. All
// other errors, and nil, are returned unchanged.
func (b *Builds) explainPull(ctx context.Context, name string, logins []*cri.AuthConfig, w want, err error) error {
	if err == nil || b == nil || w.isolation != winbuild.HyperV || !strings.Contains(err.Error(), noVariant) {
		return err
	}
	ref, bad := reference.ParseNormalizedNamed(name)
	image, ok := b.ask(ctx, name, logins)
	if bad != nil || !ok || !image.Index {
		return err
	}
	fits := winbuild.Check(image, b.Node, winbuild.HyperV)
	if fits.Outcome != winbuild.Runs || fits.Platform.Digest == "" {
		return err
	}
	return fmt.Errorf(
		"%w (of an index the runtime takes only what runs in process isolation, with the handler %s too: name the variant %s by itself, %s@%s)",
		err, w.handler, fits.Platform, reference.FamiliarName(ref), fits.Platform.Digest)
}

// mismatch is part of the runtime's error for a container whose image is for a build that the host does not run. It
// occurs for images that the check before the pull cannot judge: those without an index, and imported ones
// (docs/windows-facts.md).
const mismatch = "container operating system does not match the host operating system"

// Explain adds to an error with the text of mismatch which builds the node runs. It returns all other errors unchanged.
func (p *Puller) Explain(err error) error {
	if p.Builds == nil || p.Builds.Node.Version.Build == 0 || !strings.Contains(err.Error(), mismatch) {
		return err
	}
	node := p.Builds.Node.Version.Build
	return fmt.Errorf(
		"%w (the image is for another build of Windows than node %s, which is build %s and runs images of build %s: "+
			"remove it from the node, and name or import one for the node's build)", err, p.Builds.Node.Name, node,
		winbuild.List(winbuild.Fitting(node, winbuild.Process)))
}
