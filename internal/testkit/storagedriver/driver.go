package storagedriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"porthole.dev/porthole/internal/atomicfile"
)

// Driver serves CSI. Make it with New; Serve listens. It is safe for concurrent use, on Linux also by several
// processes with one folder: one for the controller, and one for each node.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	o Options

	mu         sync.Mutex
	volumes    map[string]*Volume
	calls      []string
	took       map[string]time.Duration
	violations []string
}

// New returns a driver with the state that an earlier one left in its folder.
func New(o Options) (*Driver, error) {
	d := &Driver{o: o, volumes: map[string]*Volume{}, took: map[string]time.Duration{}}
	if err := os.MkdirAll(filepath.Join(o.Dir, "volumes"), 0o755); err != nil {
		return nil, err
	}
	end, err := d.begin()
	if err == nil {
		end()
	}
	return d, err
}

// begin locks the driver and its folder, and reads the state that another process may have changed. The caller calls
// end.
func (d *Driver) begin() (end func(), err error) {
	d.mu.Lock()
	unlock, err := lock(filepath.Join(d.o.Dir, "lock"))
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	end = func() { unlock(); d.mu.Unlock() }
	data, err := os.ReadFile(d.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return end, nil
	}
	volumes := map[string]*Volume{}
	if err == nil {
		err = json.Unmarshal(data, &volumes)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("reading the driver's state: %w", err)
	}
	d.volumes = volumes
	return end, nil
}

func (d *Driver) stateFile() string { return filepath.Join(d.o.Dir, "state.json") }

// save writes the state. The caller holds d.mu.
func (d *Driver) save() error {
	data, err := json.Marshal(d.volumes)
	if err != nil {
		return err
	}
	return atomicfile.Write(d.stateFile(), data, 0o644)
}

// Serve listens on socket for CSI and, if registration is not empty, there for the kubelet, until stop is called. A
// file that an earlier driver left at either is replaced. endpoint is the socket as the kubelet sees it; empty means
// socket.
func (d *Driver) Serve(socket, registration, endpoint string) (stop func(), err error) {
	if endpoint == "" {
		endpoint = socket
	}
	service := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csi.RegisterIdentityServer(service, d)
	csi.RegisterNodeServer(service, d)
	csi.RegisterControllerServer(service, &controller{Driver: d})
	if err := listen(service, socket); err != nil {
		return nil, err
	}
	if registration == "" {
		return service.Stop, nil
	}

	unregister, err := Register(d.o.Name, endpoint, registration)
	if err != nil {
		service.Stop()
		return nil, err
	}
	return func() { unregister(); service.Stop() }, nil
}

// Register listens on socket for the kubelet, and tells it of the driver of that name, which the kubelet sees at
// endpoint, until stop is called.
func Register(name, endpoint, socket string) (stop func(), err error) {
	registrar := grpc.NewServer()
	registerapi.RegisterRegistrationServer(registrar, &register{name: name, endpoint: endpoint})
	if err := listen(registrar, socket); err != nil {
		return nil, err
	}
	return registrar.Stop, nil
}

// listen takes the place of a socket that an earlier driver has left.
func listen(s *grpc.Server, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", socket, err)
	}
	go func() { _ = s.Serve(l) }()
	return nil
}

// register answers the kubelet's questions about the driver.
type register struct {
	registerapi.UnimplementedRegistrationServer
	name, endpoint string
}

func (r *register) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: r.name, Endpoint: r.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

func (r *register) NotifyRegistrationStatus(_ context.Context,
	s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		fmt.Fprintln(os.Stderr, "registration failed:", s.Error)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// intercept counts calls, and lets Options make them fail.
func (d *Driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
	error) {
	method := path.Base(info.FullMethod)
	began := time.Now()
	d.mu.Lock()
	d.calls = append(d.calls, method)
	d.mu.Unlock()
	if d.o.Call != nil {
		if err := d.o.Call(ctx, method); err != nil {
			return nil, err
		}
	}
	out, err := handle(ctx, req)
	d.mu.Lock()
	d.took[method] += time.Since(began)
	d.mu.Unlock()
	if err == nil && d.o.Done != nil {
		if err := d.o.Done(method); err != nil {
			return nil, err
		}
	}
	return out, err
}

// Calls returns the methods that were called so far, in this order, and forgets them.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.calls
	d.calls = nil
	return out
}

// Took returns how long the calls of each method took together.
func (d *Driver) Took() map[string]time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.took)
}

// Violations returns what was asked for that CSI does not allow.
func (d *Driver) Violations() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.violations)
}

// Volumes returns the state of all volumes, by ID; nil if it cannot be read.
func (d *Driver) Volumes() map[string]Volume {
	end, err := d.begin()
	if err != nil {
		return nil
	}
	defer end()
	out := map[string]Volume{}
	for id, v := range d.volumes {
		one := *v
		one.Published = maps.Clone(v.Published)
		one.Attached = maps.Clone(v.Attached)
		one.Staged = maps.Clone(v.Staged)
		out[id] = one
	}
	return out
}

// Change changes the state of a volume, made if there is none: what an administrator does beside the driver's
// controller.
func (d *Driver) Change(id string, change func(*Volume)) error {
	end, err := d.begin()
	if err != nil {
		return err
	}
	defer end()
	v, err := d.ensure(id)
	if err != nil {
		return err
	}
	change(v)
	return d.save()
}

// ensure returns a volume, made if there is none. The caller holds d.mu.
func (d *Driver) ensure(id string) (*Volume, error) {
	if v := d.volumes[id]; v != nil {
		return v, nil
	}
	if id == "" || id != filepath.Base(id) {
		return nil, status.Errorf(codes.InvalidArgument, "%q is not the ID of a volume", id)
	}
	if err := os.MkdirAll(d.folder(id), 0o777); err != nil {
		return nil, err
	}
	if err := os.Chmod(d.folder(id), 0o777); err != nil {
		return nil, err
	}
	d.volumes[id] = &Volume{ID: id}
	return d.volumes[id], nil
}

func (d *Driver) folder(id string) string { return filepath.Join(d.o.Dir, "volumes", id) }

// find returns a volume that must be there. The caller holds d.mu.
func (d *Driver) find(id string) (*Volume, error) {
	if v := d.volumes[id]; v != nil {
		return v, nil
	}
	if d.o.Make {
		return d.ensure(id)
	}
	return nil, status.Errorf(codes.NotFound, "there is no volume %q", id)
}

// violation notes what CSI does not allow, and returns it as an error. The caller holds d.mu.
func (d *Driver) violation(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	d.violations = append(d.violations, text)
	return status.Error(codes.FailedPrecondition, text)
}

// GetPluginInfo is part of CSI.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.o.Name, VendorVersion: "1"}, nil
}

// Probe is part of CSI.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// GetPluginCapabilities is part of CSI.
func (d *Driver) GetPluginCapabilities(context.Context,
	*csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(t csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}}
	}
	out := []*csi.PluginCapability{service(csi.PluginCapability_Service_CONTROLLER_SERVICE)}
	if len(d.o.Topology) > 0 {
		out = append(out, service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS))
	}
	if !d.o.NoExpand {
		out = append(out, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}})
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: out}, nil
}
