package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/hcsd/layers"
	"porthole.dev/porthole/emulator/hcsd/silos"
	"porthole.dev/porthole/internal/platform"
)

// Run serves until ctx ends; containers go on then, and the next hcsd finds them. It must be started in the host's
// network namespace. Only one daemon can run per host: a second one finds the address in use.
func Run(ctx context.Context, o Options) error {
	listener, err := net.Listen("tcp4", o.Listen)
	if err != nil {
		return fmt.Errorf("serving HCS: %w", err)
	}
	defer listener.Close()
	for _, dir := range []string{"systems", "layers", "runc"} {
		if err := os.MkdirAll(o.host().Path(dir), 0o700); err != nil {
			return fmt.Errorf("serving HCS: %w", err)
		}
	}
	// The host's programs use what is mounted there.
	for _, dir := range []string{o.host().Path(), o.host().Path("layers")} {
		if err := confine.PassThrough(dir); err != nil {
			return fmt.Errorf("serving HCS: %w", err)
		}
	}
	if err := o.runtime().Prepare(); err != nil {
		return fmt.Errorf("serving HCS: %w", err)
	}
	if err := platform.LeaveCgroupRoot(); err != nil {
		return fmt.Errorf("serving HCS: %w", err)
	}
	s, err := newService(o)
	if err != nil {
		return err
	}
	if err := o.keepMemory(ctx); err != nil {
		return err
	}
	if err := s.restore(ctx); err != nil {
		return err
	}
	server, err := s.serveControl(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	go s.layers.KeepUsage(ctx)

	klog.FromContext(ctx).Info("HCS is running", "address", o.Listen, "systems", s.systems.Runs())
	defer s.systems.CloseStreams()
	return s.accept(ctx, listener)
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
	return daemon.Serve(ctx, listener, func(conn net.Conn) { s.serveConn(ctx, conn) })
}
