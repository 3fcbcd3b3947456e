package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	beta "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/registration"
)

// services are the versions of a driver's service that this kubelet speaks.
var services = []string{api.DRAPluginService, beta.DRAPluginService}

// Drivers keeps the DRA drivers that have registered with this kubelet. It implements registration.Handler, and is
// safe for concurrent use.
//
//	absent ──Register──> registered ◄──connection ends, comes──► away
//	   ▲                     │                                    │
//	   └─────Deregister──────┴────────────────────────────────────┘
//
// A driver may be registered from several sockets, as while it is replaced by a newer version. One of which no
// instance is connected for wipeDelay offers no devices any more: its ResourceSlices are deleted.
type Drivers struct {
	m *Manager

	mu sync.Mutex
	// byName are the instances of each driver, the newest last.
	byName map[string][]*driver
	wipes  map[string]context.CancelFunc // of drivers that cannot be used
	ctx    context.Context               // of begin; nil before
}

func newDrivers(m *Manager) *Drivers {
	return &Drivers{m: m, byName: map[string][]*driver{}, wipes: map[string]context.CancelFunc{}}
}

// begin deletes the node's ResourceSlices once, in the background: no driver has registered with this kubelet yet, and
// one that does offers its devices again.
func (r *Drivers) begin(ctx context.Context) {
	r.mu.Lock()
	r.ctx = ctx
	for name := range r.byName {
		r.look(name)
	}
	r.mu.Unlock()
	go r.wipe(ctx, "")
}

func (r *Drivers) end() {
	r.mu.Lock()
	var all []*driver
	for _, list := range r.byName {
		all = append(all, list...)
	}
	r.mu.Unlock()
	for _, d := range all {
		d.close()
	}
}

var wipeBackoff = retry.Backoff{First: time.Second, Max: 5 * time.Minute}

// wipe deletes the ResourceSlices of a driver on this node, of all drivers for "". It tries until it succeeds or ctx
// ends.
func (r *Drivers) wipe(ctx context.Context, driver string) {
	for failures := 1; ; failures++ {
		err := r.m.o.API.DeleteResourceSlices(ctx, driver)
		if err == nil || apierrors.IsNotFound(err) { // the API server does not know the kind
			klog.FromContext(ctx).V(2).Info("Deleted the node's ResourceSlices", "driver", driver)
			return
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Deleting the node's ResourceSlices failed", "driver", driver, "failures",
				failures)
		}
		if !wakeup.Pause(ctx, wipeBackoff.Wait(failures)) {
			return
		}
	}
}

// Register connects to an instance of a driver.
func (r *Drivers) Register(ctx context.Context, p registration.Plugin) error {
	at := slices.IndexFunc(p.Versions, func(v string) bool { return slices.Contains(services, v) })
	if at < 0 {
		return fmt.Errorf(
			"invalid supported gRPC versions of DRA driver plugin %s at endpoint %s: none of services supported by the plugin (%q) are supported by the kubelet (%q)",
			p.Name, p.Endpoint, p.Versions, services)
	}
	d := &driver{name: p.Name, endpoint: p.Endpoint, service: p.Versions[at], of: r}
	if err := d.dial(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	list := r.byName[p.Name]
	i := slices.IndexFunc(list, func(o *driver) bool { return o.endpoint == p.Endpoint })
	var old *driver
	if i >= 0 { // it was told of already, and could not be told that it is registered
		old = list[i]
		list = slices.Delete(slices.Clone(list), i, i+1)
	}
	r.byName[p.Name] = append(list, d)
	r.look(p.Name)
	r.mu.Unlock()

	if old != nil {
		old.close()
	}
	d.connect()
	return nil
}

// Deregister forgets an instance of a driver.
func (r *Drivers) Deregister(_ context.Context, p registration.Plugin) {
	r.mu.Lock()
	list := r.byName[p.Name]
	i := slices.IndexFunc(list, func(d *driver) bool { return d.endpoint == p.Endpoint })
	if i < 0 {
		r.mu.Unlock()
		return
	}
	gone := list[i]
	if list = slices.Delete(slices.Clone(list), i, i+1); len(list) == 0 {
		delete(r.byName, p.Name)
	} else {
		r.byName[p.Name] = list
	}
	r.look(p.Name)
	r.mu.Unlock()
	gone.close()
}

// get returns the instance of a driver that is to be called: the newest that is connected, or else the newest.
func (r *Drivers) get(name string) (*driver, error) {
	if name == "" {
		return nil, errors.New("DRA driver name is empty")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.byName[name]
	if len(list) == 0 {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	for _, d := range slices.Backward(list) {
		if d.connected {
			return d, nil
		}
	}
	return list[len(list)-1], nil
}

// set notes whether an instance is connected.
func (r *Drivers) set(d *driver, connected bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.connected = connected
	r.look(d.name)
}

// look sees to it that the ResourceSlices of a driver that cannot be used are deleted in time, and those of another
// are not. The caller holds r.mu.
func (r *Drivers) look(name string) {
	usable := slices.ContainsFunc(r.byName[name], func(d *driver) bool { return d.connected })
	stop := r.wipes[name]
	switch {
	case usable && stop != nil:
		stop()
		delete(r.wipes, name)
	case !usable && stop == nil && r.ctx != nil:
		ctx, cancel := context.WithCancel(r.ctx)
		r.wipes[name] = cancel
		go func() {
			if wakeup.Pause(ctx, wipeDelay) {
				r.wipe(ctx, name)
			}
		}()
	}
}
