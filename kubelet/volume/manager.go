package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/podcert"
	"porthole.dev/porthole/kubelet/volume/sources"
	"porthole.dev/porthole/kubelet/volume/storage"
	"porthole.dev/porthole/kubelet/volume/token"
)

// Manager owns the volume folders below the kubelet's root. It is safe for concurrent use. Calls that change the
// folders of one pod wait for each other.
type Manager struct {
	opts    Options
	windows bool
	storage *storage.Volumes

	mu   sync.Mutex
	pods map[types.UID]*podVolumes
}

// podVolumes is what the manager knows of one pod that was prepared.
type podVolumes struct {
	// work is held while folders of the pod are changed. It is taken before mu.
	work   sync.Mutex
	tokens *token.Cache
	certs  *podcert.Cache
	wake   wakeup.Signal // content may have changed

	mu      sync.Mutex // guards all fields below
	pod     *v1.Pod
	facts   Facts
	watches map[objectRef]func() // each ends its watch
	stop    context.CancelFunc
	closed  bool
	ready   bool            // the last Prepare made all volumes ready
	made    map[string]bool // the volumes that are ready, by name
	born    time.Time       // when the first attempt began
}

// New returns a manager. It does not touch the disk.
func New(opts Options) *Manager {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	m := &Manager{opts: opts, windows: disk.OnWindows, pods: map[types.UID]*podVolumes{}}
	m.storage = storage.New(storage.Options{RootDir: opts.RootDir, NodeName: opts.NodeName, BootID: opts.BootID,
		Claims: opts.Claims, Drivers: opts.Drivers, Secrets: opts.Objects, Tokens: opts.tokens(),
		NodeChanged: opts.NodeChanged, Event: opts.Event, Measure: opts.Measure, Now: opts.Now})
	return m
}

// Prepare makes all volumes of the pod and returns nil if each is ready. It may be called again at any time, with the
// newest version of the pod, and then changes only what is not right. Volumes are made in parallel, and the failure of
// one does not stop the others: Failures lists them.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod, facts Facts) error {
	p := m.adopt(ctx, pod, facts)
	m.watchObjects(p, pod)
	p.work.Lock()
	defer p.work.Unlock()
	if p.isClosed() {
		return fmt.Errorf("preparing volumes of pod %s: it is being torn down", pod.Name)
	}
	err := m.prepareAll(ctx, p, pod, facts)
	p.mu.Lock()
	p.ready = err == nil
	p.mu.Unlock()
	return err
}

// Observe takes a new version of a pod: volumes that show its labels, annotations or resources are rewritten soon. It
// does not block. It does nothing for a pod that was never prepared.
func (m *Manager) Observe(pod *v1.Pod) {
	m.mu.Lock()
	p := m.pods[pod.UID]
	m.mu.Unlock()
	if p == nil || !slices.ContainsFunc(needsOf(pod), func(n sources.Need) bool { return n.Pod }) {
		return
	}

	p.mu.Lock()
	before := p.pod
	p.pod = pod
	p.mu.Unlock()
	if before == nil || showsChange(before, pod) {
		p.wake.Wake()
	}
}

// showsChange reports whether a volume may show something of the pod that has changed. No volume shows the status.
func showsChange(before, after *v1.Pod) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations)
}

// adopt returns what is known of the pod. For a pod that is new it starts the goroutine that keeps its files fresh, if
// any of them can change.
func (m *Manager) adopt(ctx context.Context, pod *v1.Pod, facts Facts) *podVolumes {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[pod.UID]
	if p == nil {
		p = newPodVolumes()
		m.pods[pod.UID] = p
		run, stop := context.WithCancel(klog.NewContext(context.Background(), klog.FromContext(ctx)))
		p.stop = stop
		if len(needsOf(pod)) > 0 {
			go m.keepFresh(run, p)
		}
		if hasClaims(pod) {
			go m.keepClaims(run, p)
		}
	}

	p.mu.Lock()
	p.pod, p.facts = pod, facts
	p.mu.Unlock()
	return p
}

func newPodVolumes() *podVolumes {
	return &podVolumes{
		born:    time.Now(),
		made:    map[string]bool{},
		watches: map[objectRef]func(){},
		tokens:  token.NewCache(),
		certs:   podcert.NewCache(),
		wake:    wakeup.New(),
	}
}

func (p *podVolumes) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// watchObjects starts the watches of the objects that the pod's files come from, unless they run already.
func (m *Manager) watchObjects(p *podVolumes, pod *v1.Pod) {
	if m.opts.Objects == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, n := range needsOf(pod) {
		if n.Object == "" {
			continue
		}
		ref := objectRef{kind: n.Object, namespace: pod.Namespace, name: n.Name}
		changed := p.wake.Wake
		switch n.Object {
		case sources.TrustBundle:
			if m.opts.TrustBundles == nil {
				continue
			}
			ref.namespace = "" // the cluster's
		case sources.PodCertificate:
			if m.opts.Certificates == nil {
				continue
			}
			ref.namespace = "" // the node's
			changed = func() { p.certs.Tell(); p.wake.Wake() }
		}

		if _, known := p.watches[ref]; !known && !p.closed {
			p.watches[ref] = m.opts.Objects.Watch(ref.kind, ref.namespace, ref.name, changed)
		}
	}
}

// job returns what is needed to do something with one volume of a pod. p is nil if that is not to prepare it.
func (m *Manager) job(p *podVolumes, pod *v1.Pod, facts Facts, v *v1.Volume) job {
	j := job{pod: pod, facts: facts, volume: v, volumes: m.opts.volumesDir(pod.UID), windows: m.windows,
		storage: m.storage, from: sources.API{Objects: m.opts.Objects, Bundles: m.opts.TrustBundles}}
	if p != nil {
		j.from.Token = func(ctx context.Context, s *v1.ServiceAccountTokenProjection) (string, error) {
			return p.tokens.Get(ctx, m.opts.tokens(), pod, s)
		}
		if m.opts.Certificates != nil {
			j.from.Certificate = func(ctx context.Context, key podcert.Key,
				s *v1.PodCertificateProjection) ([]byte, []byte, error) {
				return p.certs.Get(ctx, m.opts.certificates(), pod, key, s)
			}
		}
	}
	return j
}

// prepareAll prepares the volumes at the same time; each has its own error. The first success of a
// volume is measured from the pod's beginning.
func (m *Manager) prepareAll(ctx context.Context, p *podVolumes, pod *v1.Pod, facts Facts) error {
	errs := make([]error, len(pod.Spec.Volumes))
	var all sync.WaitGroup
	for i := range pod.Spec.Volumes {
		all.Go(func() {
			v := &pod.Spec.Volumes[i]
			began := time.Now()
			err := m.job(p, pod, facts, v).prepare(ctx)
			m.measure(m.pluginOf(pod, v), "volume_mount", began, err)
			if p.setMade(v.Name, err == nil) {
				m.measure(m.pluginOf(pod, v), "overall_volume_mount", p.born, nil)
			}
			if err != nil {
				errs[i] = &Error{Volume: v.Name, Err: err}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Waits of keepFresh: after a rewrite that failed, and before the renewal of a token that is already due.
var rewriteBackoff = retry.Backoff{First: 2 * time.Second, Max: time.Minute}

const renewWait = time.Second

// keepFresh rewrites the volumes of a pod when an object or the pod changed and when a token is due, until the pod is
// torn down.
func (m *Manager) keepFresh(ctx context.Context, p *podVolumes) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	failures := 0
	for {
		wait := 24 * time.Hour
		if at, ok := p.renewal(); ok {
			wait = max(at.Sub(m.opts.Now()), renewWait)
		}
		if failures > 0 {
			wait = rewriteBackoff.Wait(failures)
		}
		timer.Reset(wait)

		// After a renewal only the time of the next one is computed anew.
		select {
		case <-ctx.Done():
			return
		case <-p.tokens.Renewed:
			continue
		case <-p.certs.Renewed:
			continue
		case <-p.wake:
		case <-timer.C:
		}

		if err := m.rewrite(ctx, p); err != nil {
			failures++
		} else {
			failures = 0
		}
	}
}

// renewal returns when a token or certificate is due, false if there is none.
func (p *podVolumes) renewal() (first time.Time, any bool) {
	for _, next := range []func() (time.Time, bool){p.tokens.Next, p.certs.Next} {
		if at, ok := next(); ok && (!any || at.Before(first)) {
			first, any = at, true
		}
	}
	return first, any
}

// rewrite brings the files of the pod's volumes up to date. Failures are passed to Options.Failed.
func (m *Manager) rewrite(ctx context.Context, p *podVolumes) error {
	p.work.Lock()
	defer p.work.Unlock()

	p.mu.Lock()
	pod := p.pod
	facts := p.facts
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil
	}

	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if _, ok := kindOf(v).(written); !ok {
			continue
		}
		if err := m.job(p, pod, facts, v).prepare(ctx); err != nil {
			errs = append(errs, &Error{Volume: v.Name, Err: err})
		}
	}

	err := errors.Join(errs...)
	if err != nil && ctx.Err() == nil && m.opts.Failed != nil {
		m.opts.Failed(pod, err)
	}
	return err
}

// tokens returns what service account tokens are asked for with.
func (o Options) tokens() token.Asker { return token.Asker{Requester: o.Tokens, Now: o.Now} }

// certificates returns what certificates of pods are asked for with.
func (o Options) certificates() podcert.Asker {
	return podcert.Asker{API: o.Certificates, Now: o.Now, Event: o.Event}
}

func (o Options) podDir(uid types.UID) string {
	return filepath.Join(o.RootDir, "pods", string(uid))
}

// volumesDir is where the volumes of a pod are, each at <plugin>/<name>.
func (o Options) volumesDir(uid types.UID) string { return filepath.Join(o.podDir(uid), "volumes") }
