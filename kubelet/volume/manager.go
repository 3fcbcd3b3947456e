package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Manager owns the volume folders below the kubelet's root. Its methods may be called from several goroutines; work on
// one pod is done by one of them at a time.
type Manager struct {
	opts    Options
	windows bool

	mu   sync.Mutex
	pods map[types.UID]*podVolumes
}

// podVolumes is what is known of one pod that was prepared.
type podVolumes struct {
	work sync.Mutex // held while folders of the pod are changed

	mu      sync.Mutex // guards the rest
	pod     *v1.Pod
	facts   Facts
	watches map[objectRef]func()
	tokens  map[tokenKey]token
	wake    chan struct{} // capacity 1: content may have changed
	renewed chan struct{} // capacity 1: a token came, so the next one is due at another time
	stop    context.CancelFunc
	closed  bool
}

// New makes a manager. It does not touch the disk.
func New(opts Options) *Manager {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Manager{opts: opts, windows: onWindows, pods: map[types.UID]*podVolumes{}}
}

// Prepare makes all volumes of the pod and returns nil when each is ready. It may be called again at any time, with
// the newest pod, and then changes only what is not right. Volumes are made in parallel; a failure of one does not stop
// the others. Failures lists the volumes concerned.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod, facts Facts) error {
	p := m.adopt(ctx, pod, facts)
	m.watchObjects(p, pod)
	p.work.Lock()
	defer p.work.Unlock()
	if p.isClosed() {
		return fmt.Errorf("preparing volumes of pod %s: it is being torn down", pod.Name)
	}
	return m.prepareAll(ctx, p, pod, facts)
}

// Observe tells of a new version of a pod: volumes that show its labels, annotations or resources are rewritten soon. It
// does not block, and does nothing for a pod that was never prepared.
func (m *Manager) Observe(pod *v1.Pod) {
	m.mu.Lock()
	p := m.pods[pod.UID]
	m.mu.Unlock()
	if p == nil || !hasDownward(pod) {
		return
	}
	p.mu.Lock()
	before := p.pod
	p.pod = pod
	p.mu.Unlock()
	if before == nil || looksOther(before, pod) {
		notify(p.wake)
	}
}

// looksOther tells whether a volume may show anything of a pod in another way than before. A new status is in none.
func looksOther(before, after *v1.Pod) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations)
}

func (m *Manager) adopt(ctx context.Context, pod *v1.Pod, facts Facts) *podVolumes {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[pod.UID]
	if p == nil {
		p = newPodVolumes()
		m.pods[pod.UID] = p
		if len(refsOf(pod)) > 0 || hasToken(pod) || hasDownward(pod) {
			run, stop := context.WithCancel(klog.NewContext(context.Background(), klog.FromContext(ctx)))
			p.stop = stop
			go m.keepFresh(run, p)
		}
	}
	p.mu.Lock()
	p.pod, p.facts = pod, facts
	p.mu.Unlock()
	return p
}

func newPodVolumes() *podVolumes {
	return &podVolumes{
		watches: map[objectRef]func(){},
		tokens:  map[tokenKey]token{},
		wake:    make(chan struct{}, 1),
		renewed: make(chan struct{}, 1),
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (p *podVolumes) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (m *Manager) watchObjects(p *podVolumes, pod *v1.Pod) {
	if m.opts.Objects == nil {
		return
	}
	changed := func() { notify(p.wake) }
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ref := range refsOf(pod) {
		if _, known := p.watches[ref]; !known && !p.closed {
			p.watches[ref] = m.opts.Objects.Watch(ref.kind, ref.namespace, ref.name, changed)
		}
	}
}

func (m *Manager) prepareAll(ctx context.Context, p *podVolumes, pod *v1.Pod, facts Facts) error {
	errs := make([]error, len(pod.Spec.Volumes))
	var all sync.WaitGroup
	for i := range pod.Spec.Volumes {
		all.Go(func() {
			v := &pod.Spec.Volumes[i]
			if err := m.prepareOne(ctx, p, job{pod: pod, facts: facts, volume: v}); err != nil {
				errs[i] = &Error{Volume: v.Name, Err: err}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// job is one volume of one pod to be made.
type job struct {
	pod    *v1.Pod
	facts  Facts
	volume *v1.Volume
}

func (j job) group() *int64 {
	if sc := j.pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}

func (m *Manager) prepareOne(ctx context.Context, p *podVolumes, j job) error {
	v := j.volume
	if err := checkVolumeName(v.Name); err != nil {
		return err
	}
	if pluginOf(v) != "" { // what is above the volume is nobody's but the kubelet's
		if err := os.MkdirAll(filepath.Dir(m.volumeDir(j.pod.UID, v)), 0o750); err != nil {
			return fmt.Errorf("making volume folder: %w", err)
		}
	}
	switch {
	case v.HostPath != nil:
		return m.prepareHostPath(v.HostPath)
	case v.EmptyDir != nil:
		return m.prepareEmptyDir(j)
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil:
		want, err := m.collect(ctx, p, j)
		if err != nil {
			return err
		}
		return m.place(ctx, j, want)
	case v.Image != nil:
		return nil // mounted by the runtime
	}
	return fmt.Errorf("this type of volume is not supported")
}

// place writes files into the folder of a volume, which is in memory on Linux unless it is a ConfigMap.
func (m *Manager) place(ctx context.Context, j job, want content) error {
	if err := want.check(m.windows); err != nil {
		return err
	}
	dir := m.volumeDir(j.pod.UID, j.volume)
	if j.volume.ConfigMap == nil {
		if err := mountMemory(dir, 0, 0o755, nil); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	if err := setRootAccess(dir, j.group()); err != nil {
		return err
	}
	changed, err := writeFiles(dir, want, access{group: j.group()})
	if changed && err == nil {
		klog.FromContext(ctx).V(4).Info("Wrote volume", "pod", klog.KObj(j.pod), "volume", j.volume.Name, "files", len(want))
	}
	return err
}

// keepFresh rewrites the volumes of a pod when an object changed or a token is due, until the pod is torn down. A
// failure is retried after one second, doubling to one minute.
func (m *Manager) keepFresh(ctx context.Context, p *podVolumes) {
	const minRetry, maxRetry = time.Second, time.Minute
	retry := minRetry
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	failed := false
	for {
		wait := 24 * time.Hour
		if at, ok := p.nextToken(); ok {
			wait = max(at.Sub(m.opts.Now()), minRetry)
		}
		if failed {
			wait = retry
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-p.renewed:
			continue
		case <-p.wake:
		case <-timer.C:
		}
		err := m.refresh(ctx, p)
		if failed = err != nil; failed {
			retry = min(retry*2, maxRetry)
		} else {
			retry = minRetry
		}
	}
}

func (m *Manager) refresh(ctx context.Context, p *podVolumes) error {
	p.work.Lock()
	defer p.work.Unlock()
	p.mu.Lock()
	pod, facts, closed := p.pod, p.facts, p.closed
	p.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil {
			continue
		}
		if err := m.prepareOne(ctx, p, job{pod: pod, facts: facts, volume: v}); err != nil {
			errs = append(errs, &Error{Volume: v.Name, Err: err})
		}
	}
	err := errors.Join(errs...)
	if err != nil && ctx.Err() == nil && m.opts.Failed != nil {
		m.opts.Failed(pod, err)
	}
	return err
}

// Plugin names as folders, as upstream lays them out.
const (
	pluginEmptyDir  = "kubernetes.io~empty-dir"
	pluginConfigMap = "kubernetes.io~configmap"
	pluginSecret    = "kubernetes.io~secret"
	pluginDownward  = "kubernetes.io~downward-api"
	pluginProjected = "kubernetes.io~projected"
)

func pluginOf(v *v1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		return pluginEmptyDir
	case v.ConfigMap != nil:
		return pluginConfigMap
	case v.Secret != nil:
		return pluginSecret
	case v.DownwardAPI != nil:
		return pluginDownward
	case v.Projected != nil:
		return pluginProjected
	}
	return ""
}

func (m *Manager) podDir(uid types.UID) string {
	return filepath.Join(m.opts.RootDir, "pods", string(uid))
}

func (m *Manager) volumeDir(uid types.UID, v *v1.Volume) string {
	return filepath.Join(m.podDir(uid), "volumes", pluginOf(v), v.Name)
}

// HostPath says where a volume of a pod is on the node. It knows pods prepared by this process, and the folders that
// an earlier process left; false means neither.
func (m *Manager) HostPath(uid types.UID, volume string) (string, bool) {
	m.mu.Lock()
	p := m.pods[uid]
	m.mu.Unlock()
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range p.pod.Spec.Volumes {
			if v := &p.pod.Spec.Volumes[i]; v.Name == volume {
				at, err := m.pathOf(uid, v)
				return at, err == nil
			}
		}
	}
	if checkID(string(uid)) != nil || checkVolumeName(volume) != nil {
		return "", false
	}
	found, _ := filepath.Glob(filepath.Join(m.podDir(uid), "volumes", "*", volume))
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

func (m *Manager) pathOf(uid types.UID, v *v1.Volume) (string, error) {
	if v.HostPath != nil {
		return CleanHostPath(v.HostPath.Path, m.windows)
	}
	if pluginOf(v) == "" {
		return "", fmt.Errorf("this type of volume is not supported")
	}
	return m.volumeDir(uid, v), nil
}
