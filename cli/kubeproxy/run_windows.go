package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows/svc"
	corev1 "k8s.io/api/core/v1"
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
	return hcn.New(hcn.Options{Trust: true, Observe: func(kind string, took time.Duration, err error) {
		result := "ok"
		if err != nil {
			result = string(hns.ClassOf(err))
		}
		server.Called(kind, result, took)
	}})
}

func (p *parts) mode(ctx context.Context) (running, error) {
	tracker := service.NewTracker(service.Node{Name: p.hostname})
	feed := kube.FeedServices(ctx, p.client, p.hostname, tracker, func(node *corev1.Node) {
		tracker.SetNode(service.Node{Name: p.hostname, Zone: node.Labels[corev1.LabelTopologyZone]})
	})
	proxy := kernel.New(kernel.Options{
		NetworkName: p.config.Winkernel.NetworkName, EnableDSR: p.config.Winkernel.EnableDSR, Host: newHost(p.server),
		Changed: feed.Changed(), Reporter: p.server, Settle: p.settle, Period: p.period, SourceVIP: p.sourceVIP,
		Take: func() ([]service.State, bool) {
			p.server.Alive()
			complete := feed.Synced()
			states := tracker.Take()
			p.server.Taken(states)
			return states, complete
		},
	})
	return running{run: proxy.Run, diff: func(ctx context.Context) (any, error) { return diff(ctx, proxy) }}, nil
}

// diff puts what the proxy compared into the form of the page.
func diff(ctx context.Context, proxy *kernel.Proxy) (health.Diff, error) {
	changes, err := proxy.Diff(ctx)
	if err != nil {
		return health.Diff{}, err
	}
	d := health.Diff{Equal: len(changes.Ops) == 0 && len(changes.Problems) == 0, Right: changes.Right}
	for _, op := range changes.Ops {
		d.Operations = append(d.Operations, health.DiffLine{Verb: string(op.Verb), Frontend: op.Key.String(), Text: op.String()})
	}
	for key, text := range changes.Problems {
		d.Problems = append(d.Problems, health.DiffLine{Frontend: key.String(), Text: text})
	}
	return d, nil
}

// cleanupLimit is how long --cleanup keeps trying.
const cleanupLimit = 5 * time.Minute

// cleanup wants nothing, until nothing of ours is left.
func cleanup(ctx context.Context, s *settings) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	server := health.New(health.Options{})
	err := kernel.Cleanup(ctx, kernel.Options{
		NetworkName: s.config.Winkernel.NetworkName, EnableDSR: s.config.Winkernel.EnableDSR, Host: newHost(server),
	})
	if err == nil {
		klog.FromContext(ctx).Info("Nothing of ours is left in HNS", "network", s.config.Winkernel.NetworkName)
	}
	return err
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
