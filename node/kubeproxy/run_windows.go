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
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/kernel"
	"porthole.dev/porthole/proxy/service"
)

// Supported returns an error if this system does not have a mode.
func Supported(string) error { return nil }

func newHost(server *health.Server) *hcn.Client {
	return hcn.New(hcn.Options{Trust: true, Observe: func(kind string, took time.Duration, err error) {
		result := "ok"
		if err != nil {
			result = string(hns.ClassOf(err))
		}
		server.Called(kind, result, took)
	}})
}

// mode makes the proxy of the mode that the options name, and what answers /diff, which mode userspace does not have.
func (p *parts) mode(ctx context.Context) (running, error) {
	if p.Mode == Userspace {
		return p.userspaceMode(ctx), nil
	}
	p.hints(klog.FromContext(ctx))
	source := p.source(ctx, service.Refuse)
	o := p.kernelOptions()
	host := newHost(p.server)
	o.Host = kernel.HostOf(host)
	o.Take = source.take
	o.Changed = source.changed
	o.Reporter = memoryReleaser{p.server, &sync.Once{}}
	o.Notify = host.Notifications(ctx)
	o.NodeAddrs = p.nodeAddrs
	o.NodeChanged = p.node.Changed()
	if !p.NoProbes {
		o.Dial, o.Probed = connect, p.probed()
	}

	mixed := newMixedPorts()
	o.Relay = kernel.RelayOptions{Relay: mixed, Overlay: p.OverlayRelay}
	o.HostMAC = nodeMAC(apiAddresses(p.api))
	p.renewAfterReboot(ctx, &o)
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

// renewAfterReboot makes the proxy replace the load balancers that it finds if the host may have rebooted since they
// were written.
func (p *parts) renewAfterReboot(ctx context.Context, o *kernel.Options) {
	logger := klog.FromContext(ctx)
	file := p.stateFile(Kernelspace)
	boot := platform.BootID()
	if boot == "" {
		logger.Info(
			"The host reports no boot id: load balancers that lost their rules in a reboot are replaced only where a connection to them fails")
	}
	may, why := rebooted(file, boot)
	if !may {
		return
	}
	logger.V(2).Info("Existing load balancers of ours may be of an earlier boot", "reason", why)
	if err := recordBoot(file, boot, bootrecord.Waiting); err != nil {
		logger.Error(err, "Recording the boot failed")
	}
	o.Renewed = func() {
		if err := recordBoot(file, boot, bootrecord.Ready); err != nil {
			logger.Error(err, "Recording the boot failed; the next start will replace the load balancers again")
		}
	}
}

func (given Options) kernelOptions() kernel.Options {
	o := kernel.Options{NetworkName: given.Config.Winkernel.NetworkName, EnableDSR: given.Config.Winkernel.EnableDSR,
		SourceVIP: given.SourceVIP, NodeAccess: given.NodeAccess,
		Settle: given.Settle, Period: given.Period, ForwardHealthChecks: given.Config.Winkernel.ForwardHealthCheckVip}
	if own, err := netip.ParseAddrPort(given.Healthz); err == nil {
		o.HealthPort = own.Port()
	}
	return o
}

// hints logs settings that HNS has no counterpart for.
func (p *parts) hints(logger klog.Logger) {
	if p.NodePortsPrimary || len(p.NodePortRanges) > 0 {
		logger.Info(
			"HNS serves node ports at every address of the node; node port addresses are for health checks of services only")
	}
}

// cleanupLimit is how long --cleanup keeps trying.
const cleanupLimit = 5 * time.Minute

// Cleanup removes from HNS everything that this proxy has set up. It tries again for cleanupLimit at most.
func Cleanup(ctx context.Context, given Options) error {
	if given.Mode == Userspace {
		return cleanupUserspace(ctx, given)
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	o := given.kernelOptions()
	o.Host = kernel.HostOf(newHost(health.New(health.Options{})))
	if err := kernel.Cleanup(ctx, o); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	if err := bootrecord.Remove(given.stateFile(Kernelspace)); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Nothing of ours is left in HNS", "network", given.Config.Winkernel.NetworkName)
	return nil
}

// nodeAddrs returns the addresses at which programs of this node reach its node ports: that of --bind-address,
// otherwise the internal ones of the node's object, which may arrive later.
func (p *parts) nodeAddrs() []netip.Addr {
	if a, err := netip.ParseAddr(p.Config.BindAddress); err == nil && !a.IsUnspecified() {
		return []netip.Addr{a}
	}
	return p.node.InternalIPs()
}

// memoryReleaser returns memory to the system after each full pass over at least manyFrontends frontends: a pass lists
// thousands of objects twice a minute, and their memory would otherwise stay with the program until the next one. This
// takes tens of milliseconds. It also does so once after the first pass that left nothing to do; from then on the heap
// is kept small.
type memoryReleaser struct {
	kernel.Reporter
	start *sync.Once
}

// manyFrontends is the number of frontends from which memory is returned: a listing of fewer takes a few megabytes.
const manyFrontends = 1000

func (t memoryReleaser) Pass(p health.Pass) {
	t.Reporter.Pass(p)
	started := false
	if p.Ready {
		t.start.Do(func() { started = true })
	}
	if !p.Full && !started {
		return
	}
	limitGarbage(os.Getenv, percentFor(liveHeap()))
	if p.Pending == 0 && p.Wanted >= manyFrontends {
		go debug.FreeOSMemory()
	}
}
