package device

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"porthole.dev/porthole/kubelet/meter"
)

// Options configure a Manager.
type Options struct {
	// Dir is where the sockets and the checkpoint are. Device plugins expect it at /var/lib/kubelet/device-plugins.
	Dir string
	// Alive returns whether a pod still has its place on the node, and whether all pods that have one are known.
	// Required.
	Alive func(types.UID) (alive, complete bool)
	// Meter counts registrations and calls; nil counts nothing.
	Meter *meter.Meter
	// Nodes are the NUMA nodes of the machine.
	Nodes []int
	// Changed is called when the node's devices have changed, with the pods that have devices of the resource. It must
	// not block.
	Changed func(pods []types.UID)
}

// Manager gives devices to containers. Make it with New. It is safe for concurrent use.
type Manager struct {
	o     Options
	began time.Time

	mu      sync.Mutex
	table   *table
	plugins map[string]*plugin       // those that are there, by resource
	turns   map[string]chan struct{} // held by who is choosing devices of a resource
	news    chan struct{}            // closed at the next list of a plugin
	written sync.Mutex               // of the checkpoint
}

// checkpointName is upstream's name of the file in Dir.
const checkpointName = "kubelet_internal_checkpoint"

// New returns a Manager that knows what an earlier kubelet wrote down. It serves nobody until Run. The error says why
// that cannot be read; the Manager then knows of no claims, as upstream's.
func New(o Options) (*Manager, error) {
	m := &Manager{o: o, began: time.Now(), table: newTable(), plugins: map[string]*plugin{},
		turns: map[string]chan struct{}{}, news: make(chan struct{})}
	return m, m.recall()
}

// Amounts counts the node's devices.
func (m *Manager) Amounts() Amounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.amounts(time.Now())
}

// Raised returns what pods can have of the node for a pod that has its devices: as much of each resource as containers
// hold of it, although some of the devices may have become unhealthy since.
func (m *Manager) Raised(uid types.UID, allocatable v1.ResourceList) v1.ResourceList {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.table.keys(uid)) == 0 {
		return allocatable
	}
	out := maps.Clone(allocatable)
	for name, n := range m.table.held() {
		if q, ok := out[v1.ResourceName(name)]; ok && q.Value() < int64(n) {
			q.Set(int64(n))
			out[v1.ResourceName(name)] = q
		}
	}
	return out
}

// Release ends what a pod has. Releasing twice does nothing.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	had := m.table.release(uid)
	m.mu.Unlock()
	if had {
		_ = m.save(context.Background()) // it logs the error, and the next claim writes all again
	}
}

// serves reports whether a resource has or had a plugin, or a container has devices of it.
func (m *Manager) serves(resource string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table.kinds[resource] != nil {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(m.table.claims)),
		func(k key) bool { return k.resource == resource })
}

// allocate meets one want. fresh reports whether it made a claim.
func (m *Manager) allocate(ctx context.Context, w want) (fresh bool, err error) {
	m.awaitPlugin(ctx, w.resource)
	end, err := m.turn(ctx, w.resource)
	if err != nil {
		return false, err
	}
	defer end()

	m.mu.Lock()
	m.sweep()
	p, done, err := m.table.choose(w)
	at := m.plugins[w.resource]
	m.mu.Unlock()
	if done || err != nil {
		return false, err
	}
	if at == nil {
		return false, fmt.Errorf("unknown Device Plugin %s", w.resource)
	}

	ids := p.settle(at.preferred(ctx, p))
	began := time.Now()
	answer, err := at.allocate(ctx, ids)
	m.o.Meter.DevicesAllocated(w.resource, time.Since(began))
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.claims[w.key] = claim{m.table.devicesOf(w.resource, ids), answer}
	return true, nil
}

// turn waits until nobody else chooses devices of a resource, so that a plugin that hangs delays only who wants its
// devices.
func (m *Manager) turn(ctx context.Context, resource string) (end func(), err error) {
	m.mu.Lock()
	c := m.turns[resource]
	if c == nil {
		c = make(chan struct{}, 1)
		m.turns[resource] = c
	}
	m.mu.Unlock()

	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for devices of %s: %w", resource, ctx.Err())
	}
}

// sweep ends the claims of pods that have no place on the node any more, which an earlier kubelet may have left. The
// caller holds the lock.
func (m *Manager) sweep() {
	for _, k := range m.table.keys("") {
		if alive, complete := m.o.Alive(k.pod); complete && !alive {
			delete(m.table.claims, k)
		}
	}
}

// startWait is how long after the start a pod waits for the plugin of a resource that an earlier kubelet knew.
// Upstream does not wait, and refuses pods whose plugin registers a moment later (kubernetes#109595).
const startWait = 10 * time.Second

// awaitPlugin waits for the first list of a plugin after a start.
func (m *Manager) awaitPlugin(ctx context.Context, resource string) {
	ctx, cancel := context.WithDeadline(ctx, m.began.Add(startWait))
	defer cancel()
	for {
		m.mu.Lock()
		k, news := m.table.kinds[resource], m.news
		m.mu.Unlock()
		if k == nil || k.gone.IsZero() || !k.gone.Equal(m.began) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		}
	}
}

// listed takes a plugin's list of devices.
func (m *Manager) listed(ctx context.Context, from *plugin, devices []Device) {
	m.mu.Lock()
	if m.plugins[from.resource] != from {
		m.mu.Unlock()
		return // another one has taken its place
	}
	m.table.replace(from.resource, devices)
	close(m.news)
	m.news = make(chan struct{})
	pods := m.podsWith(from.resource)
	m.mu.Unlock()

	klog.FromContext(ctx).V(2).
		Info("A device plugin lists its devices", "resource", from.resource, "devices", len(devices))
	_ = m.save(ctx)
	m.o.Changed(pods)
}

// lost takes note that a plugin is gone.
func (m *Manager) lost(ctx context.Context, from *plugin, why error) {
	m.mu.Lock()
	if m.plugins[from.resource] != from {
		m.mu.Unlock()
		return
	}
	delete(m.plugins, from.resource)
	m.table.lose(from.resource, time.Now())
	pods := m.podsWith(from.resource)
	m.mu.Unlock()

	klog.FromContext(ctx).Info("A device plugin is gone", "resource", from.resource, "cause", why.Error())
	_ = m.save(ctx)
	m.o.Changed(pods)
	time.AfterFunc(gracePeriod, func() { m.o.Changed(nil) })
}

// podsWith returns the pods that have devices of a resource. The caller holds the lock.
func (m *Manager) podsWith(resource string) []types.UID {
	var out []types.UID
	for _, k := range m.table.keys("") {
		if k.resource == resource {
			out = append(out, k.pod)
		}
	}
	return slices.Compact(out)
}

// join makes a plugin the one of its resource, in place of any other.
func (m *Manager) join(p *plugin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.plugins[p.resource]; old != nil {
		old.close()
	}
	m.plugins[p.resource] = p
}

// empty removes what is in the folder but the checkpoint: plugins see by the removal of their sockets that the kubelet
// has started, and register again.
func (m *Manager) empty() error {
	entries, err := os.ReadDir(m.o.Dir)
	if err != nil {
		return fmt.Errorf("reading the folder of device plugins: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.Name() == checkpointName || e.IsDir() {
			continue
		}
		if err := os.Remove(filepath.Join(m.o.Dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

var _ api.RegistrationServer = (*registration)(nil)
