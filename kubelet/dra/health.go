package dra

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"

	"porthole.dev/porthole/internal/wakeup"
)

// Times of the health of devices.
const (
	healthAgain   = 5 * time.Second  // the wait before a driver is asked again to tell the health of its devices
	healthTimeout = 30 * time.Second // what a driver has said of a device counts for so long, if it names no other time
)

// poolDevice identifies a device of a driver.
type poolDevice struct{ pool, device string }

// condition is what a driver has said of one device.
type condition struct {
	state   v1.ResourceHealthStatus
	message string
	until   time.Time // it counts until then
	timeout time.Duration
}

// health is what drivers have said of their devices.
type health map[string]map[poolDevice]condition

// of returns the health of a device now.
func (h health) of(d Device, now time.Time) condition {
	c, known := h[d.Driver][poolDevice{d.Pool, d.Name}]
	if !known || now.After(c.until) {
		return condition{state: v1.ResourceHealthStatusUnknown}
	}
	return c
}

// take takes in a driver's list, and returns the devices of which it says something new. What it does not list stays
// until its time is over.
func (h health) take(driver string, list []*api.DeviceHealth, now time.Time) map[poolDevice]bool {
	if h[driver] == nil {
		h[driver] = map[poolDevice]condition{}
	}
	changed := map[poolDevice]bool{}
	listed := map[poolDevice]bool{}
	for _, d := range list {
		key := poolDevice{d.GetDevice().GetPoolName(), d.GetDevice().GetDeviceName()}
		c := conditionOf(d, now)
		before, known := h[driver][key]
		changed[key] = !known || before.state != c.state || before.message != c.message || before.timeout != c.timeout
		listed[key], h[driver][key] = true, c
	}
	for key, c := range h[driver] {
		if !listed[key] && now.After(c.until) && c.state != v1.ResourceHealthStatusUnknown {
			h[driver][key] = condition{state: v1.ResourceHealthStatusUnknown, until: c.until}
			changed[key] = true
		}
	}
	return changed
}

func conditionOf(d *api.DeviceHealth, now time.Time) condition {
	c := condition{state: v1.ResourceHealthStatusUnknown, message: d.GetMessage(), timeout: healthTimeout}
	switch d.GetHealth() {
	case api.HealthStatus_HEALTHY:
		c.state = v1.ResourceHealthStatusHealthy
	case api.HealthStatus_UNHEALTHY:
		c.state = v1.ResourceHealthStatusUnhealthy
	}
	if s := d.GetHealthCheckTimeoutSeconds(); s > 0 {
		c.timeout = time.Duration(s) * time.Second
	}
	if len(c.message) > v1.ResourceHealthMessageMaxLength {
		c.message = c.message[:v1.ResourceHealthMessageMaxLength-len("...")] + "..."
	}
	c.until = now.Add(c.timeout)
	return c
}

// followHealth takes in what the driver says of its devices until ctx ends. A driver that does not know the question
// is not asked again.
func (d *driver) followHealth(ctx context.Context) {
	for {
		err := d.readHealth(ctx)
		if ctx.Err() != nil || status.Code(err) == codes.Unimplemented {
			return
		}
		klog.FromContext(ctx).V(4).
			Info("The health of a driver's devices is not told", "driver", d.name, "cause", err.Error())
		if !wakeup.Pause(ctx, healthAgain) {
			return
		}
	}
}

// readHealth reads one stream to its end. Then nothing is known of the devices.
func (d *driver) readHealth(ctx context.Context) error {
	stream, err := api.NewDRAResourceHealthClient(d.conn).NodeWatchResources(ctx, &api.NodeWatchResourcesRequest{})
	if err != nil {
		return err
	}
	defer d.of.m.forgetHealth(d.name)
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		d.of.m.takeHealth(d.name, answer.GetDevices())
	}
}

func (m *Manager) forgetHealth(driver string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.health, driver)
}

func (m *Manager) takeHealth(driver string, list []*api.DeviceHealth) {
	m.mu.Lock()
	changed := m.health.take(driver, list, time.Now())
	for key, is := range changed {
		if !is {
			delete(changed, key)
		}
	}
	pods := m.table.users(driver, changed)
	m.mu.Unlock()
	if len(pods) > 0 && m.o.Changed != nil {
		m.o.Changed(pods)
	}
}

// Health returns the devices of the containers of a pod with their health, as the pod's status shows it.
func (m *Manager) Health(p *v1.Pod) map[string][]v1.ResourceStatus {
	if len(p.Spec.ResourceClaims) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]v1.ResourceStatus{}
	now := time.Now()
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		shares, err := sharesOf(p, c)
		if err != nil {
			continue
		}
		for _, s := range shares {
			if one := m.healthOf(s, now); s.title != "" && len(one.Resources) > 0 {
				out[c.Name] = append(out[c.Name], one)
			}
		}
	}
	return out
}

// healthOf returns the health of the devices of a share. A device is known by its first CDI name; one of that name is
// shown once. The caller holds m.mu.
func (m *Manager) healthOf(s share, now time.Time) v1.ResourceStatus {
	out := v1.ResourceStatus{Name: v1.ResourceName(s.title)}
	seen := map[v1.ResourceID]bool{}
	devices, _ := m.table.devices(s)
	for _, d := range devices {
		id := v1.ResourceID(d.Driver + "/" + d.Pool + "/" + d.Name)
		if len(d.CDI) > 0 {
			id = v1.ResourceID(d.CDI[0])
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		c := m.health.of(d, now)
		one := v1.ResourceHealth{ResourceID: id, Health: c.state}
		if m.o.Messages && c.message != "" {
			one.Message = &c.message
		}
		out.Resources = append(out.Resources, one)
	}
	return out
}
