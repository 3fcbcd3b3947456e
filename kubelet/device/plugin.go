package device

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin is a device plugin that is connected.
type plugin struct {
	resource string
	conn     *grpc.ClientConn
	client   api.DevicePluginClient
	options  *api.DevicePluginOptions
}

const (
	// connectTimeout is upstream's time for the first connection.
	connectTimeout = 10 * time.Second
	// allocateTimeout bounds the questions before a pod is admitted. Upstream's kubelet waits for ever.
	allocateTimeout = time.Minute
)

// connect reaches a plugin at its socket and asks what it wants to be asked.
func connect(ctx context.Context, resource, socket string) (*plugin, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial), grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, fmt.Errorf("connecting to the device plugin of %s at %s: %w", resource, socket, err)
	}

	p := &plugin{resource: resource, conn: conn, client: api.NewDevicePluginClient(conn)}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if p.options, err = p.client.GetDevicePluginOptions(ctx, &api.Empty{}, grpc.WaitForReady(true)); err != nil {
		p.close()
		return nil, fmt.Errorf("failed to get device plugin options of %s at %s: %w", resource, socket, err)
	}
	return p, nil
}

func (p *plugin) close() { p.conn.Close() }

// follow passes the plugin's lists on until it is gone.
func (p *plugin) follow(ctx context.Context, m *Manager) {
	defer p.close()
	stream, err := p.client.ListAndWatch(ctx, &api.Empty{})
	for err == nil {
		var answer *api.ListAndWatchResponse
		if answer, err = stream.Recv(); err == nil {
			m.listed(ctx, p, devicesFrom(answer))
		}
	}
	if ctx.Err() == nil {
		m.lost(ctx, p, err)
	}
}

func devicesFrom(answer *api.ListAndWatchResponse) []Device {
	var out []Device
	for _, d := range answer.Devices {
		one := Device{ID: d.ID, Healthy: d.Health == api.Healthy}
		for _, n := range d.GetTopology().GetNodes() {
			one.Nodes = append(one.Nodes, n.ID)
		}
		out = append(out, one)
	}
	return out
}

// preferred asks the plugin which devices of a pool it would take, if it wants to be asked and there is a choice. A
// plugin that does not answer has no opinion.
func (p *plugin) preferred(ctx context.Context, choice pick) []string {
	if !p.options.GetGetPreferredAllocationAvailable() || choice.left == 0 || choice.left == len(choice.pool) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, allocateTimeout)
	defer cancel()
	answer, err := p.client.GetPreferredAllocation(ctx,
		&api.PreferredAllocationRequest{ContainerRequests: []*api.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs:   append(append([]string{}, choice.sure...), choice.pool...),
			MustIncludeDeviceIDs: choice.sure,
			AllocationSize:       int32(choice.left + len(choice.sure))}}})
	if err != nil || len(answer.GetContainerResponses()) == 0 {
		if err != nil {
			klog.FromContext(ctx).Error(err, "A device plugin does not say which devices it prefers", "resource",
				p.resource)
		}
		return nil
	}
	return answer.ContainerResponses[0].GetDeviceIDs()
}

// errNoAnswer is what comes of an answer without content.
var errNoAnswer = errors.New("no containers return in allocation response")

// allocate asks the plugin what a container needs to use devices. The answer is in protobuf.
func (p *plugin) allocate(ctx context.Context, ids []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, allocateTimeout)
	defer cancel()
	answer, err := p.client.Allocate(ctx,
		&api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	if len(answer.ContainerResponses) == 0 || answer.ContainerResponses[0] == nil {
		return nil, fmt.Errorf("%w %v", errNoAnswer, answer)
	}
	return proto.Marshal(answer.ContainerResponses[0])
}

// prestart tells the plugin that a container with devices is about to start, if it wants to be told.
func (p *plugin) prestart(ctx context.Context, ids []string) error {
	if !p.options.GetPreStartRequired() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, api.KubeletPreStartContainerRPCTimeoutInSecs*time.Second)
	defer cancel()
	_, err := p.client.PreStartContainer(ctx, &api.PreStartContainerRequest{DevicesIds: ids})
	return err
}
