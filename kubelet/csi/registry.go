package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/registration"
)

// Registry knows the storage drivers of the node, and tells the API about them. It is a registration.Handler. Make it
// with NewRegistry. It is safe for concurrent use.
type Registry struct {
	o Options

	mu      sync.Mutex
	drivers map[string]*Driver
	arrived chan struct{} // closed when a driver has come, and then replaced

	writing sync.Mutex // one write of the API's objects at a time
}

// NewRegistry returns a Registry that knows no driver.
func NewRegistry(o Options) *Registry {
	return &Registry{o: o, drivers: map[string]*Driver{}, arrived: make(chan struct{})}
}

// Register connects to a driver, asks it about this node, and writes what it says into the API.
func (r *Registry) Register(ctx context.Context, p registration.Plugin) error {
	if err := checkVersions(p.Name, p.Versions); err != nil {
		return err
	}
	d, err := Dial(p.Name, p.Endpoint, r.o.Measure)
	if err != nil {
		return err
	}

	info, err := d.Info(ctx)
	if err == nil {
		err = r.write(ctx, entry{driver: p.Name, info: info})
	}
	if err != nil {
		d.Close()
		return err
	}

	r.mu.Lock()
	old := r.drivers[p.Name]
	r.drivers[p.Name] = d
	close(r.arrived)
	r.arrived = make(chan struct{})
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
	r.changed()
	return nil
}

// Deregister forgets a driver, unless it was registered again from elsewhere, and takes it out of the CSINode.
func (r *Registry) Deregister(ctx context.Context, p registration.Plugin) {
	r.mu.Lock()
	d := r.drivers[p.Name]
	if d == nil || d.endpoint != p.Endpoint {
		r.mu.Unlock()
		return
	}
	delete(r.drivers, p.Name)
	r.mu.Unlock()

	d.Close()
	r.changed()
	if err := r.write(ctx, entry{driver: p.Name, gone: true}); err != nil {
		klog.FromContext(ctx).Error(err, "Removing a driver from the CSINode failed", "driver", p.Name)
	}
}

func (r *Registry) changed() {
	if r.o.Changed != nil {
		r.o.Changed()
	}
}

// Driver returns a driver by name, or an error for which errors.Is(err, ErrNotRegistered) is true.
func (r *Registry) Driver(name string) (*Driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.drivers[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("driver name %s %w", name, ErrNotRegistered)
}

// Await is Driver for one that may come soon: it waits at most for wait.
func (r *Registry) Await(ctx context.Context, name string, wait time.Duration) (*Driver, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		r.mu.Lock()
		d, arrived := r.drivers[name], r.arrived
		r.mu.Unlock()
		if d != nil {
			return d, nil
		}

		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return r.Driver(name)
		}
	}
}

// Names lists the drivers that are registered.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.drivers))
}

// Refresh asks a driver again how many volumes the node may have, and writes the answer.
func (r *Registry) Refresh(ctx context.Context, name string) error {
	d, err := r.Driver(name)
	if err != nil {
		return err
	}
	info, err := d.Info(ctx)
	if err != nil {
		return err
	}
	return r.write(ctx, entry{driver: name, info: info})
}

// Announce makes the CSINode, without drivers if there is none. It tries until it succeeds or ctx ends.
func (r *Registry) Announce(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := r.write(ctx, entry{})
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Making the CSINode failed")
		}
		if !wakeup.Pause(ctx, writeBackoff.Wait(failures)) {
			return ctx.Err()
		}
	}
}

var writeBackoff = retry.Backoff{First: 200 * time.Millisecond, Max: 10 * time.Second}

// writeTries is how often a write is tried that others came before.
const writeTries = 5

// write makes the API's objects say what they should of a driver.
func (r *Registry) write(ctx context.Context, e entry) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if e.driver != "" {
		if err := r.writeNode(ctx, e); err != nil {
			return err
		}
	}

	var err error
	for range writeTries {
		if err = r.writeCSINode(ctx, e); err == nil || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

func (r *Registry) writeNode(ctx context.Context, e entry) error {
	node, err := r.o.API.GetNode(ctx)
	if err != nil {
		return fmt.Errorf("reading the node for driver %s: %w", e.driver, err)
	}
	patch, err := planNode(node, e)
	if err != nil || patch == nil {
		return err
	}
	if _, err := r.o.API.PatchNode(ctx, patch); err != nil {
		return fmt.Errorf("writing the node's labels of driver %s: %w", e.driver, err)
	}
	return nil
}

func (r *Registry) writeCSINode(ctx context.Context, e entry) error {
	have, err := r.o.API.CSINode(ctx)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return fmt.Errorf("reading the CSINode: %w", err)
	}
	if absent {
		if have, err = r.newCSINode(ctx); err != nil {
			return err
		}
	}

	want, changed := planCSINode(have, e)
	switch {
	case absent:
		_, err = r.o.API.CreateCSINode(ctx, want)
	case changed:
		_, err = r.o.API.UpdateCSINode(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("writing the CSINode: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("CSINode is right", "entry", e.String(), "written", absent || changed)
	return nil
}

// newCSINode returns the CSINode of a node that has none. It belongs to the node object, and goes with it.
func (r *Registry) newCSINode(ctx context.Context) (*storagev1.CSINode, error) {
	node, err := r.o.API.GetNode(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the node for its CSINode: %w", err)
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: r.o.NodeName,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name,
				UID: node.UID}}}},
		nil
}
