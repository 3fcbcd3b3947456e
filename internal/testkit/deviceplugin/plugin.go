// Package deviceplugin is a device plugin (v1beta1) for tests: it serves at a real socket, registers with a kubelet,
// lists what it is told to, and writes down what it is asked.
package deviceplugin

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Plugin is one plugin. The fields must be set before Serve.
type Plugin struct {
	api.UnimplementedDevicePluginServer
	Resource string
	Options  api.DevicePluginOptions
	// Answer returns what a container gets for devices. nil: the variable DEVICES with their ids.
	Answer func(ids []string) (*api.ContainerAllocateResponse, error)
	// Asked is told each call; nil: it is kept for Did.
	Asked func(call string)

	lists  chan string
	server *grpc.Server
	mu     sync.Mutex
	calls  []string
}

// Devices reads a list of devices: "a b! c@1" are a, b, which is unhealthy, and c, which is near to NUMA node 1.
func Devices(text string) []*api.Device {
	var out []*api.Device
	for _, word := range strings.Fields(text) {
		id, bad := strings.CutSuffix(word, "!")
		id, node, near := strings.Cut(id, "@")
		d := &api.Device{ID: id, Health: api.Healthy}
		if bad {
			d.Health = api.Unhealthy
		}
		if near {
			var n int64
			_, _ = fmt.Sscan(node, &n)
			d.Topology = &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: n}}}
		}
		out = append(out, d)
	}
	return out
}

// Serve serves at a socket in the kubelet's folder of device plugins and registers.
func (p *Plugin) Serve(ctx context.Context, dir, socket string) error {
	p.lists = make(chan string, 16)
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		return err
	}
	p.server = grpc.NewServer()
	api.RegisterDevicePluginServer(p.server, p)
	go func() { _ = p.server.Serve(listener) }()
	return Register(ctx, dir,
		&api.RegisterRequest{Version: api.Version, ResourceName: p.Resource, Endpoint: socket, Options: &p.Options})
}

// Register sends a registration to the kubelet, and waits until it is there.
func Register(ctx context.Context, dir string, q *api.RegisterRequest) error {
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, q, grpc.WaitForReady(true))
	return err
}

// List makes the plugin list these devices from now on.
func (p *Plugin) List(text string) { p.lists <- text }

// Stop ends the plugin, as its death would.
func (p *Plugin) Stop() { p.server.Stop() }

// Did returns the calls since it was last asked.
func (p *Plugin) Did() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := strings.Join(p.calls, "; ")
	p.calls = nil
	return out
}

// asked passes a call on to the test, or keeps it for later if nobody listens.
func (p *Plugin) asked(format string, args ...any) {
	call := fmt.Sprintf(format, args...)
	if p.Asked != nil {
		p.Asked(call)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

// GetDevicePluginOptions is part of the plugin's API.
func (p *Plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &p.Options, nil
}

// ListAndWatch is part of the plugin's API.
func (p *Plugin) ListAndWatch(_ *api.Empty, s api.DevicePlugin_ListAndWatchServer) error {
	for {
		select {
		case <-s.Context().Done():
			return nil
		case text := <-p.lists:
			if err := s.Send(&api.ListAndWatchResponse{Devices: Devices(text)}); err != nil {
				return err
			}
		}
	}
}

// GetPreferredAllocation prefers the last of the devices.
func (p *Plugin) GetPreferredAllocation(_ context.Context,
	q *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	c := q.ContainerRequests[0]
	p.asked("prefer %d of %v with %v", c.AllocationSize, c.AvailableDeviceIDs, c.MustIncludeDeviceIDs)
	return &api.PreferredAllocationResponse{
		ContainerResponses: []*api.ContainerPreferredAllocationResponse{
			{DeviceIDs: c.AvailableDeviceIDs[len(c.AvailableDeviceIDs)-1:]}}}, nil
}

// Allocate is part of the plugin's API.
func (p *Plugin) Allocate(_ context.Context, q *api.AllocateRequest) (*api.AllocateResponse, error) {
	ids := q.ContainerRequests[0].DevicesIds
	p.asked("allocate %v", ids)
	answer := &api.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": strings.Join(ids, ",")}}
	if p.Answer != nil {
		var err error
		if answer, err = p.Answer(ids); err != nil {
			return nil, err
		}
	}
	return &api.AllocateResponse{ContainerResponses: []*api.ContainerAllocateResponse{answer}}, nil
}

// PreStartContainer is part of the plugin's API.
func (p *Plugin) PreStartContainer(_ context.Context, q *api.PreStartContainerRequest) (*api.PreStartContainerResponse,
	error) {
	p.asked("prestart %v", q.DevicesIds)
	return &api.PreStartContainerResponse{}, nil
}
