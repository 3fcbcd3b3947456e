// Package claimdriver is a driver of dynamic resource allocation for tests: it registers with a kubelet, and notes
// what it is asked.
package claimdriver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	beta "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Driver is one instance of a driver. Name is required, and set before Serve.
type Driver struct {
	api.UnimplementedDRAPluginServer
	health.UnimplementedDRAResourceHealthServer

	Name string
	// Beta serves v1beta1 only, as drivers made for Kubernetes 1.32 and 1.33 do.
	Beta bool
	// Devices are what a claim gets; without it none.
	Devices func(*api.Claim) []*api.Device
	// Asked is told each call in its order, such as "prepare a b".
	Asked func(call string)

	mu      sync.Mutex
	fail    string
	silent  bool
	health  []*health.DeviceHealth
	changed chan struct{}
	server  *grpc.Server
}

// Fail makes the driver refuse each claim with this text; "" ends that.
func (d *Driver) Fail(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = text
}

// Silent makes the driver answer without an entry for the claims that it was asked about, as a broken driver would.
func (d *Driver) Silent(is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = is
}

// Socket is where the driver called name serves below a kubelet's folder.
func Socket(kubelet, name string) string { return filepath.Join(kubelet, "plugins", name, "dra.sock") }

// Serve serves a kubelet, and returns when its sockets are there. Stop ends it.
func (d *Driver) Serve(kubelet string) error {
	d.server = grpc.NewServer()
	if d.Beta {
		beta.RegisterDRAPluginServer(d.server, beta.V1ServerWrapper{DRAPluginServer: d})
	} else {
		api.RegisterDRAPluginServer(d.server, d)
		health.RegisterDRAResourceHealthServer(d.server, d)
	}
	registration.RegisterRegistrationServer(d.server, &registrar{d: d, endpoint: Socket(kubelet, d.Name)})
	d.mu.Lock()
	d.changed = make(chan struct{})
	d.mu.Unlock()

	for _, socket := range []string{Socket(kubelet, d.Name),
		filepath.Join(kubelet, "plugins_registry", d.Name+"-reg.sock")} {
		if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
			return err
		}
		// A socket may be left of an earlier driver.
		_ = os.Remove(socket)
		l, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		go func() { _ = d.server.Serve(l) }()
	}
	return nil
}

// Stop ends the driver, and with it its sockets.
func (d *Driver) Stop() { d.server.Stop() }

// registrar answers the kubelet's question what this is.
type registrar struct {
	registration.UnimplementedRegistrationServer
	d        *Driver
	endpoint string
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	versions := []string{api.DRAPluginService, beta.DRAPluginService}
	if r.d.Beta {
		versions = versions[1:]
	}
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: r.d.Name, Endpoint: r.endpoint,
		SupportedVersions: versions}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context,
	s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if s.PluginRegistered {
		r.d.told("registered")
	} else {
		r.d.told("refused: " + s.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// told passes a call on to the test, if it wants to know.
func (d *Driver) told(call string) {
	if d.Asked != nil {
		d.Asked(call)
	}
}

// note tells of a call about claims, and returns how to answer.
func (d *Driver) note(call string, claims []*api.Claim) (fail string, silent bool) {
	var names []string
	for _, c := range claims {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	d.told(call + " " + strings.Join(names, " "))
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fail, d.silent
}

// NodePrepareResources answers a kubelet.
func (d *Driver) NodePrepareResources(_ context.Context,
	q *api.NodePrepareResourcesRequest) (*api.NodePrepareResourcesResponse, error) {
	fail, silent := d.note("prepare", q.Claims)
	out := &api.NodePrepareResourcesResponse{Claims: map[string]*api.NodePrepareResourceResponse{}}
	for _, c := range q.Claims {
		one := &api.NodePrepareResourceResponse{Error: fail}
		if fail == "" && d.Devices != nil {
			one.Devices = d.Devices(c)
		}
		if !silent {
			out.Claims[c.Uid] = one
		}
	}
	return out, nil
}

// NodeUnprepareResources answers a kubelet.
func (d *Driver) NodeUnprepareResources(_ context.Context,
	q *api.NodeUnprepareResourcesRequest) (*api.NodeUnprepareResourcesResponse, error) {
	fail, silent := d.note("unprepare", q.Claims)
	out := &api.NodeUnprepareResourcesResponse{Claims: map[string]*api.NodeUnprepareResourceResponse{}}
	for _, c := range q.Claims {
		if !silent {
			out.Claims[c.Uid] = &api.NodeUnprepareResourceResponse{Error: fail}
		}
	}
	return out, nil
}

// Tell says how the driver's devices are.
func (d *Driver) Tell(list ...*health.DeviceHealth) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health = list
	close(d.changed)
	d.changed = make(chan struct{})
}

// Health is what Tell is given of one device.
func Health(pool, device string, healthy bool, message string) *health.DeviceHealth {
	state := health.HealthStatus_UNHEALTHY
	if healthy {
		state = health.HealthStatus_HEALTHY
	}
	return &health.DeviceHealth{Device: &health.DeviceIdentifier{PoolName: pool, DeviceName: device}, Health: state,
		Message: message}
}

// NodeWatchResources tells a kubelet what Tell was given.
func (d *Driver) NodeWatchResources(_ *health.NodeWatchResourcesRequest,
	out grpc.ServerStreamingServer[health.NodeWatchResourcesResponse]) error {
	for {
		d.mu.Lock()
		list, changed := d.health, d.changed
		d.mu.Unlock()
		if list != nil {
			if err := out.Send(&health.NodeWatchResourcesResponse{Devices: list}); err != nil {
				return fmt.Errorf("telling the health of devices: %w", err)
			}
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return nil
		}
	}
}
