package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/hcsd/layers"
	"porthole.dev/porthole/emulator/hcsd/silos"
	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/platform"
)

// Run serves until ctx ends; containers go on then, and the next hcsd finds them. It must be started in the host's
// network namespace. Only one daemon can run per host: a second one finds the address in use.
func Run(ctx context.Context, o Options) error {
	plan, err := component.Order((&parts{o: o}).components())
	if err != nil {
		return err
	}
	return plan.Run(ctx)
}

// parts is the daemon. Each field is set by the component of the name beside it.
type parts struct {
	o        Options
	listener net.Listener // address
	service  *Service     // service
	control  *http.Server // control
}

// stopWithin is how long calls that have begun may go on.
const stopWithin = time.Minute

// components are the parts in the order in which they start. Nothing is done to the host before it is certain that no
// other hcsd runs.
func (p *parts) components() []component.Component {
	return []component.Component{
		{Name: "address", Start: func(context.Context) (err error) {
			if p.listener, err = net.Listen("tcp4", p.o.Listen); err != nil {
				return fmt.Errorf("serving HCS: %w", err)
			}
			return nil
		}, Stop: func(context.Context) { _ = p.listener.Close() }}, // it may be closed
		{Name: "folders", Needs: []string{"address"}, Start: p.makeFolders},
		{Name: "service", Needs: []string{"folders"}, Start: func(context.Context) (err error) {
			p.service, err = newService(p.o)
			return err
		}, Stop: func(context.Context) { p.service.systems.CloseStreams() }},
		{Name: "memory", Needs: []string{"folders"}, Start: p.o.keepMemory},
		{Name: "systems", Needs: []string{"service"}, Start: func(ctx context.Context) error {
			return p.service.restore(ctx)
		}},

		// What works until the program ends.
		{Name: "control", Needs: []string{"systems"}, Start: func(ctx context.Context) (err error) {
			p.control, err = p.service.serveControl(ctx)
			return err
		}, Stop: func(context.Context) { _ = p.control.Close() }},
		{Name: "use of layers", Needs: []string{"systems"}, Run: func(ctx context.Context) error {
			p.service.layers.KeepUsage(ctx)
			return nil
		}},
		{Name: "HCS", Needs: []string{"systems", "control"}, StopWithin: stopWithin,
			Run: func(ctx context.Context) error {
				klog.FromContext(ctx).Info("HCS is running", "address", p.o.Listen, "systems", p.service.systems.Runs())
				return p.service.accept(ctx, p.listener)
			}},
	}
}

// makeFolders makes the folders of the host, which its programs and containers use.
func (p *parts) makeFolders(context.Context) error {
	host := p.o.host()
	for _, dir := range []string{"systems", "layers", "runc"} {
		if err := os.MkdirAll(host.Path(dir), 0o700); err != nil {
			return fmt.Errorf("serving HCS: %w", err)
		}
	}
	for _, dir := range []string{host.Path(), host.Path("layers")} { // the host's programs use what is mounted there
		if err := confine.PassThrough(dir); err != nil {
			return fmt.Errorf("serving HCS: %w", err)
		}
	}
	err := p.o.runtime().Prepare()
	if err == nil {
		err = platform.LeaveCgroupRoot()
	}
	if err != nil {
		return fmt.Errorf("serving HCS: %w", err)
	}
	return nil
}

// serveControl answers the interface that is not part of HCS, on a socket in the host's folder. The caller closes the
// server.
func (s *Service) serveControl(ctx context.Context) (*http.Server, error) {
	socket := Socket(s.o.HostDir)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("serving HCS control: %w", err)
	}
	unix, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serving HCS control: %w", err)
	}
	server := &http.Server{Handler: s.controls(), BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = server.Serve(unix) }() // it ends with the server
	return server, nil
}

// Clean ends the containers of the host in hostDir and takes away the mounts of their layers, for when the host is
// removed. hcsd must have ended. Nothing there is success.
func Clean(ctx context.Context, hostDir, runcPath string) error {
	o := Options{HostDir: hostDir, Runc: runcPath}
	r := o.runtime()
	return errors.Join(r.Clean(ctx), silos.Unmount(o.host()), layers.Unmount(o.host()), r.RemoveRoot())
}

// RemoveRoot removes the root folder of a host's containers, which is in /run. No container may run. It is success if
// there is none.
func RemoveRoot(hostDir string) error {
	if real, err := filepath.EvalSymlinks(hostDir); err == nil { // as hcsd has it
		hostDir = real
	}
	return Options{HostDir: hostDir}.runtime().RemoveRoot()
}

// accept serves connections until ctx ends.
func (s *Service) accept(ctx context.Context, listener net.Listener) error {
	return daemon.Serve(ctx, listener, s.serveConn)
}
