package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows/svc"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/kernel"
	"porthole.dev/porthole/proxy/service"
)

// supported says whether this system has a mode.
func supported(mode string) error {
	if mode == userspace {
		return errors.New("mode userspace is not in this program")
	}
	return nil
}

func newHost(server *health.Server) *hcn.Client {
	return hcn.New(hcn.Options{Observe: func(kind string, took time.Duration, err error) {
		result := "ok"
		if err != nil {
			result = string(hns.ClassOf(err))
		}
		server.Called(kind, result, took)
	}})
}

func (p *parts) mode(ctx context.Context) (running, error) {
	services, err := kube.WatchServices(ctx, p.client, p.hostname)
	if err != nil {
		return running{}, err
	}
	proxy := kernel.New(kernel.Options{
		NetworkName: p.config.Winkernel.NetworkName, EnableDSR: p.config.Winkernel.EnableDSR, Host: newHost(p.server),
		Changed: services.Changed(), Report: p.server.Update, Settle: p.settle, Period: p.period,
		Wanted: func() (service.Result, bool) {
			p.server.Alive()
			all, slices, zone, complete := services.Snapshot()
			if !complete {
				return service.Result{}, false
			}
			p.server.Taken(nil)
			return service.Frontends(all, slices, service.Node{Name: p.hostname, Zone: zone}), true
		},
	})
	return running{run: proxy.Run}, nil
}

// cleanupLimit is how long --cleanup keeps trying.
const cleanupLimit = 5 * time.Minute

// cleanup wants nothing, until nothing of ours is left.
func cleanup(ctx context.Context, s *settings) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	server := health.New(health.Options{})
	proxy := kernel.New(kernel.Options{
		NetworkName: s.config.Winkernel.NetworkName, EnableDSR: s.config.Winkernel.EnableDSR, Host: newHost(server),
		Wanted: func() (service.Result, bool) { return service.Result{}, true },
	})
	for {
		_, err := proxy.Sync(ctx)
		if err == nil {
			klog.FromContext(ctx).Info("Nothing of ours is left in HNS", "network", s.config.Winkernel.NetworkName)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cleaning up: %w", err)
		case <-time.After(time.Second):
		}
	}
}

// asService runs under the service manager of Windows when it started us and --windows-service says so.
func asService(ctx context.Context, s *settings, run func(context.Context) error) error {
	if !s.config.WindowsRunAsService {
		return run(ctx)
	}
	if managed, err := svc.IsWindowsService(); err != nil || !managed {
		klog.FromContext(ctx).Info("Not started by the service manager: running as a plain program", "error", err)
		return run(ctx)
	}
	h := &managedRun{ctx: ctx, run: run}
	if err := svc.Run("kube-proxy", h); err != nil {
		return fmt.Errorf("answering the service manager: %w", err)
	}
	return h.err
}

// managedRun answers the service manager while the proxy runs.
type managedRun struct {
	ctx context.Context
	run func(context.Context) error
	err error
}

// Execute runs until the manager says stop.
func (m *managedRun) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- m.run(ctx) }()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case m.err = <-done:
			status <- svc.Status{State: svc.StopPending}
			if m.err != nil {
				return true, 1
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				stop()
			}
		}
	}
}
