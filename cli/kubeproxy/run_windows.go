package kubeproxy

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/kernel"
	"porthole.dev/porthole/proxy/service"
)

// supported says whether this system has a mode.
func supported(string) error { return nil }

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
	if p.settings.mode == userspace {
		return p.userspaceMode(ctx), nil
	}
	p.hints(klog.FromContext(ctx))
	source := p.source(ctx, service.Refuse)
	o := p.kernelOptions()
	host := newHost(p.server)
	o.Host, o.Take, o.Changed, o.Reporter = host, source.take, source.changed, tidy{p.server, &sync.Once{}}
	o.Notify = host.Notifications(ctx)
	o.NodeAddrs, o.NodeChanged = p.nodeAddrs, p.node.Changed()
	if !p.noProbes {
		o.Dial, o.Probed = connect, p.probed()
	}
	mixed := newMixedPorts()
	o.Relay = mixed
	o.HostMAC = nodeMAC(apiAddresses(p.api))
	proxy := kernel.New(o)
	run := func(ctx context.Context) error {
		defer mixed.relay.Close()
		return proxy.Run(ctx)
	}
	return running{run: run, diff: func(ctx context.Context) (any, error) {
		changes, err := proxy.Diff(ctx)
		if err != nil {
			return nil, err
		}
		return changes.Document(), nil
	}}, nil
}

func (s *settings) kernelOptions() kernel.Options {
	o := kernel.Options{NetworkName: s.config.Winkernel.NetworkName, EnableDSR: s.config.Winkernel.EnableDSR, SourceVIP: s.sourceVIP,
		Settle: s.settle, Period: s.period, ForwardHealthChecks: s.config.Winkernel.ForwardHealthCheckVip}
	if own, err := netip.ParseAddrPort(s.healthz); err == nil {
		o.HealthPort = own.Port()
	}
	return o
}

// hints tell of settings that HNS cannot carry.
func (p *parts) hints(logger klog.Logger) {
	if p.nodePortsPrimary || len(p.nodePortRanges) > 0 {
		logger.Info("HNS serves node ports at every address of the node; node port addresses are for health checks of services only")
	}
}

// cleanupLimit is how long --cleanup keeps trying.
const cleanupLimit = 5 * time.Minute

// cleanup wants nothing, until nothing of ours is left.
func cleanup(ctx context.Context, s *settings) error {
	if s.mode == userspace {
		return cleanupUserspace(ctx, s)
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	o := s.kernelOptions()
	o.Host = newHost(health.New(health.Options{}))
	if err := kernel.Cleanup(ctx, o); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	klog.FromContext(ctx).Info("Nothing of ours is left in HNS", "network", s.config.Winkernel.NetworkName)
	return nil
}

// asService runs under the service manager of Windows when it started us and --windows-service says so.
func asService(ctx context.Context, s *settings, run func(context.Context) error) error {
	if !s.config.WindowsRunAsService {
		return run(ctx)
	}
	return platform.AsService(ctx, "kube-proxy", run)
}

// nodeAddrs are those by which programs of this node reach its node ports: the one that --bind-address names, else the
// internal ones of the node's object, whenever they come.
func (p *parts) nodeAddrs() []netip.Addr {
	if a, err := netip.ParseAddr(p.config.BindAddress); err == nil && !a.IsUnspecified() {
		return []netip.Addr{a}
	}
	return p.node.InternalIPs()
}

// tidy gives memory back to the system after each look at everything, where that is a lot: a listing of thousands of
// objects, twice a minute, would else stay with the program until the next. It costs tens of milliseconds. So it does when
// everything has been dealt with once, from when on the heap is kept small.
type tidy struct {
	kernel.Reporter
	start *sync.Once
}

// aLot of frontends: fewer than that are listed in a few megabytes.
const aLot = 1000

func (t tidy) Pass(p health.Pass) {
	t.Reporter.Pass(p)
	started := false
	if p.Ready {
		t.start.Do(func() { started = true })
	}
	if !p.Full && !started {
		return
	}
	thrift(os.Getenv, percentFor(liveHeap()))
	if p.Pending == 0 && p.Wanted >= aLot {
		go debug.FreeOSMemory()
	}
}
