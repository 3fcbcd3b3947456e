package device

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// socketName is where plugins find the kubelet, in the folder of plugins.
const socketName = "kubelet.sock"

// Run takes registrations until ctx ends, and returns when all that follows plugins has ended too. It returns an error
// if it cannot listen.
func (m *Manager) Run(ctx context.Context) error {
	if err := os.MkdirAll(m.o.Dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of device plugins: %w", err)
	}
	if err := m.empty(); err != nil {
		return err
	}
	listener, err := net.Listen("unix", filepath.Join(m.o.Dir, socketName))
	if err != nil {
		return fmt.Errorf("listening for device plugins: %w", err)
	}

	server := grpc.NewServer(grpc.WaitForHandlers(true)) // they start to follow plugins
	followed, end := context.WithCancel(ctx)
	r := &registration{m: m, ctx: followed}
	api.RegisterRegistrationServer(server, r)
	stopped := context.AfterFunc(ctx, server.Stop)
	defer stopped()
	err = server.Serve(listener)
	end()
	r.following.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serving device plugins: %w", err)
}

// registration is the service that plugins call.
type registration struct {
	api.UnimplementedRegistrationServer
	m         *Manager
	ctx       context.Context // of Run
	following sync.WaitGroup
}

// Register connects to a plugin and follows its list of devices.
func (r *registration) Register(ctx context.Context, q *api.RegisterRequest) (*api.Empty, error) {
	if err := checkRegistration(q); err != nil {
		klog.FromContext(r.ctx).Error(err, "A device plugin was refused", "resource", q.ResourceName)
		return &api.Empty{}, err
	}
	p, err := connect(ctx, q.ResourceName, filepath.Join(r.m.o.Dir, q.Endpoint))
	if err != nil {
		klog.FromContext(r.ctx).Error(err, "A device plugin that has registered cannot be reached", "resource",
			q.ResourceName)
		return &api.Empty{}, err
	}
	klog.FromContext(r.ctx).Info("A device plugin has registered", "resource", q.ResourceName, "endpoint", q.Endpoint)
	r.m.o.Meter.DevicePlugin(q.ResourceName)
	r.m.join(p)
	r.following.Go(func() { p.follow(r.ctx, r.m) })
	return &api.Empty{}, nil
}

// checkRegistration returns why a plugin cannot be taken.
func checkRegistration(q *api.RegisterRequest) error {
	switch {
	case !slices.Contains(api.SupportedVersions[:], q.Version):
		return fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is %q", q.Version,
			api.SupportedVersions)
	case !extended(q.ResourceName):
		return fmt.Errorf("the ResourceName %q is invalid", q.ResourceName)
	case !filepath.IsLocal(q.Endpoint):
		return fmt.Errorf("the endpoint %q is not a file in the folder of device plugins", q.Endpoint)
	}
	return nil
}

// extended reports whether a name can be that of an extended resource: qualified by a domain that is not Kubernetes'
// own.
func extended(name string) bool {
	domain, _, qualified := strings.Cut(name, "/")
	if !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") ||
		strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+name)) == 0
}

func compareText(a, b string) int { return cmp.Compare(a, b) }

func sortedNodes(m map[int64][]string) []int64 { return slices.Sorted(maps.Keys(m)) }
