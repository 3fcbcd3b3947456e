package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/dra/v1"

	"porthole.dev/porthole/internal/keylock"
	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/retry"
)

// Manager has the claims of the node's pods prepared. Make it with New. It is safe for concurrent use.
type Manager struct {
	o       Options
	drivers *Drivers

	locks keylock.Set // by claim: held while its drivers are called

	mu     sync.Mutex
	table  table
	health health
}

// New returns a Manager that knows what an earlier kubelet wrote down.
func New(o Options) (*Manager, error) {
	m := &Manager{o: o, table: table{}, health: health{}}
	m.drivers = newDrivers(m)
	if err := m.recall(); err != nil {
		return nil, err
	}
	o.Meter.CountClaims(func() map[string]int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.table.counts()
	})
	return m, nil
}

// Drivers takes in the drivers of the node.
func (m *Manager) Drivers() *Drivers { return m.drivers }

// Run undoes the preparation of claims whose pods are gone, and deletes the ResourceSlices of drivers that stay away,
// until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	m.drivers.begin(ctx)
	defer m.drivers.end()
	loop.Loop{Pass: m.sweep, Period: sweepPeriod, Retry: retry.Backoff{First: time.Second, Max: time.Second}}.Run(ctx)
}

// errUnknown says that it is not known of all pods whether they are gone.
var errUnknown = errors.New("the pods of the node are not known yet")

// sweep undoes the preparation of claims whose pods are gone: they ended while no kubelet ran. It returns an error if
// it is not known of all pods whether they are.
func (m *Manager) sweep(ctx context.Context) error {
	m.mu.Lock()
	pods := m.table.pods()
	m.mu.Unlock()
	for _, uid := range pods {
		alive, known := m.o.Alive(uid)
		if !known {
			return errUnknown
		}
		if alive {
			continue
		}
		if err := m.Unprepare(ctx, uid); err != nil {
			klog.FromContext(ctx).Error(err, "Claims of a pod that is gone are still prepared", "pod", uid)
		}
	}
	return nil
}

// Prepare has the claims of a pod prepared before its containers are made. It may be called again; claims that are
// prepared are left alone.
func (m *Manager) Prepare(ctx context.Context, p *v1.Pod) error {
	began := time.Now()
	err := m.prepare(ctx, p)
	m.o.Meter.ClaimsDone("PrepareResources", time.Since(began), err != nil)
	if err != nil {
		return fmt.Errorf("prepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) prepare(ctx context.Context, p *v1.Pod) error {
	refs, err := referencesOf(p)
	if err != nil || len(refs) == 0 {
		return err
	}
	wanted, err := m.read(ctx, p, refs)
	if err != nil {
		return err
	}

	keys := slices.Collect(maps.Keys(wanted))
	unlock, err := m.lock(ctx, keys)
	if err != nil {
		return err
	}
	defer unlock()
	todo, err := m.note(p, wanted)
	if err != nil {
		return err
	}
	for _, driver := range slices.Sorted(maps.Keys(todo)) {
		if err := m.callPrepare(ctx, driver, todo[driver]); err != nil {
			return err
		}
	}

	if len(todo) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		m.table[key].prepared = true
	}
	return m.save()
}

// wanted is a claim that a pod is about to use.
type wanted struct {
	uid     types.UID
	drivers []string
}

// read reads the claims of a pod, and checks that the pod may use each and that each driver is there. It changes
// nothing, so that a pod that fails here can be deleted although a driver never comes.
func (m *Manager) read(ctx context.Context, p *v1.Pod, refs []reference) (map[claimKey]wanted, error) {
	out := map[claimKey]wanted{}
	for _, ref := range refs {
		c, err := m.o.API.ResourceClaim(ctx, ref.key.namespace, ref.key.name)
		if err != nil {
			return nil, fmt.Errorf("fetch ResourceClaim %s: %w", ref.key.name, err)
		}
		if err := checkClaim(p, ref, c); err != nil {
			return nil, err
		}
		w := wanted{uid: c.UID, drivers: driversOf(c)}
		for _, d := range w.drivers {
			if _, err := m.drivers.get(d); err != nil {
				return nil, err
			}
		}
		out[ref.key] = w
	}
	return out, nil
}

// note writes down that the pod uses these claims, and returns what is to be prepared.
func (m *Manager) note(p *v1.Pod, all map[claimKey]wanted) (calls, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.Collect(maps.Keys(all))
	for key, w := range all {
		if err := m.table.use(key, w.uid, p.UID, w.drivers); err != nil {
			return nil, err
		}
	}
	return m.table.toPrepare(keys), m.save()
}

// lock takes the locks of claims, in the order of their names, so that two callers do not wait for each other.
func (m *Manager) lock(ctx context.Context, keys []claimKey) (unlock func(), err error) {
	var names []string
	for _, k := range keys {
		names = append(names, k.String())
	}
	slices.Sort(names)

	var held []func()
	unlock = func() {
		for _, f := range held {
			f()
		}
	}
	for _, name := range names {
		one, err := m.locks.Lock(ctx, name)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, one)
	}
	return unlock, nil
}

// asked returns what a driver is told of claims.
func (m *Manager) asked(keys []claimKey) (out []*api.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		out = append(out, &api.Claim{Namespace: key.namespace, Name: key.name, Uid: string(m.table[key].uid)})
	}
	return out
}

// callPrepare has one driver prepare claims, and keeps what it says of them.
func (m *Manager) callPrepare(ctx context.Context, driver string, keys []claimKey) error {
	d, err := m.drivers.get(driver)
	if err != nil {
		return err
	}
	asked := m.asked(keys)
	answer, err := d.prepare(ctx, &api.NodePrepareResourcesRequest{Claims: asked})
	if err != nil {
		return fmt.Errorf("NodePrepareResources: %w", err)
	}
	if err := checkAnswer("NodePrepareResources", asked, answer.GetClaims()); err != nil {
		return err
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	for i, key := range keys {
		var devices []Device
		for _, x := range answer.Claims[asked[i].Uid].GetDevices() {
			devices = append(devices,
				Device{driver, x.PoolName, x.DeviceName, (*types.UID)(x.ShareId), x.RequestNames, x.CdiDeviceIds})
		}
		m.table[key].drivers[driver] = devices
	}
	return nil
}

// checkAnswer returns what is wrong with a driver's answer about claims.
func checkAnswer[A interface{ GetError() string }](call string, asked []*api.Claim, answer map[string]A) error {
	for uid := range answer {
		if !slices.ContainsFunc(asked, func(c *api.Claim) bool { return c.Uid == uid }) {
			return fmt.Errorf("%s returned result for unknown claim UID %s", call, uid)
		}
	}
	for _, c := range asked {
		if text := answer[c.Uid].GetError(); text != "" {
			return fmt.Errorf("%s failed for ResourceClaim %s: %s", call, c.Name, text)
		}
	}
	if skipped := len(asked) - len(answer); skipped != 0 {
		return fmt.Errorf("%s skipped %d ResourceClaims", call, skipped)
	}
	return nil
}

// Unprepare undoes the preparation of the claims of a pod that has ended. It needs nothing but the table: pod and
// claims may be gone. It may be called again, and succeeds for a pod that has none.
func (m *Manager) Unprepare(ctx context.Context, uid types.UID) error {
	began := time.Now()
	err := m.unprepare(ctx, uid)
	m.o.Meter.ClaimsDone("UnprepareResources", time.Since(began), err != nil)
	if err != nil {
		return fmt.Errorf("unprepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) unprepare(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	keys := m.table.of(uid)
	m.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}

	unlock, err := m.lock(ctx, keys)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	todo := m.table.toUnprepare(uid)
	m.mu.Unlock()

	for _, driver := range slices.Sorted(maps.Keys(todo)) {
		d, err := m.drivers.get(driver)
		if err != nil {
			return err
		}
		asked := m.asked(todo[driver])
		answer, err := d.unprepare(ctx, &api.NodeUnprepareResourcesRequest{Claims: asked})
		if err != nil {
			return fmt.Errorf("NodeUnprepareResources: %w", err)
		}
		if err := checkAnswer("NodeUnprepareResources", asked, answer.GetClaims()); err != nil {
			return err
		}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.leave(uid)
	return m.save()
}

// CDI returns the names of the devices that a container has because of claims.
func (m *Manager) CDI(p *v1.Pod, c *v1.Container) ([]string, error) {
	shares, err := sharesOf(p, c)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, s := range shares {
		devices, known := m.table.devices(s)
		if !known {
			return nil,
				fmt.Errorf("unable to get claim info for ResourceClaim %s in namespace %s: nobody has prepared it",
					s.key.name, s.key.namespace)
		}
		for _, d := range devices {
			for _, name := range d.CDI {
				if !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out, nil
}

// Held returns the claims of a container with all their devices. Upstream's kubelet tells the same programs this.
func (m *Manager) Held(p *v1.Pod, c *v1.Container) (out []Held) {
	shares, err := sharesOf(p, c)
	if err != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	told := map[claimKey]bool{}
	for _, s := range shares {
		devices, known := m.table.devices(share{key: s.key})
		if known && !told[s.key] {
			out = append(out, Held{s.key.name, s.key.namespace, devices})
		}
		told[s.key] = true
	}
	return out
}
