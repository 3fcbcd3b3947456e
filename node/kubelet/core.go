package kubelet

import (
	"context"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/platform"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/podresources"
	"porthole.dev/porthole/kubelet/static"
)

// makeAllotments makes what gives pods devices, processors, memory and claims.
func (p *parts) makeAllotments(ctx context.Context) error {
	d := device.Options{Dir: deviceFolder(p.given.DeviceDir, p.host.root, platform.IsWindows), Alive: p.pods.Alive,
		Changed: func(pods []types.UID) { p.changed.Wake(); p.pods.Wake(pods) }, Meter: p.meter}
	if m := p.machine.Machine; m != nil {
		d.Nodes = m.NodeIDs()
	}
	devices, err := device.New(d)
	if err != nil { // as upstream's kubelet: pods that run have what they need, others get devices anew
		klog.FromContext(ctx).Error(err, "What an earlier kubelet wrote down about devices cannot be read")
	}
	p.allot = allot.New(allot.Options{Topology: p.pinned.topology, Devices: devices, Pins: p.pinned.manager,
		Period: p.cfg.CPUManagerReconcilePeriod.Duration, Pin: p.runtime.Pin, NoQuota: p.pinned.noQuota, IDs: p.ids,
		Claims: p.plugins.claims, Health: p.plugins.health, Pods: p.pods.View, Meter: p.meter})
	return nil
}

// servePodResources tells programs of the node what pods have of it. A kubelet that cannot goes on without.
func (p *parts) servePodResources(ctx context.Context) error {
	err := podresources.Serve(ctx, filepath.Join(p.host.root, "pod-resources"), p.allot.Resources())
	if err != nil {
		klog.FromContext(ctx).Error(err, "What pods have of the node cannot be asked for")
	}
	return nil
}

// makeKubelet makes what runs the pods.
func (p *parts) makeKubelet(ctx context.Context) error {
	left, err := p.newLeftReader()
	if err != nil {
		return err
	}
	cfg, node := p.cfg, p.node.Options
	node.StorageAwaited = p.plugins.awaited
	o := core.Options{Node: node, RootDir: p.host.root, PodLogsDir: p.host.logs, Windows: platform.IsWindows,
		MaxImages: int(*cfg.NodeStatusMaxImages), UnsafeSysctls: cfg.AllowedUnsafeSysctls,
		LeaseSeconds: cfg.NodeLeaseDurationSeconds, Static: staticSources(cfg, p.host.name),
		DNS:     dns.Cluster{Servers: cfg.ClusterDNS, Domain: cfg.ClusterDomain},
		HostDNS: func() dns.Config { return p.resolver.settings(ctx) }, PodRange: p.addresses.avoid,
		API: p.api.API, Standalone: p.api.client == nil, Runtime: core.NewRuntime(p.runtime.Runtime),
		Images: p.images.Puller, ImageGC: p.images.unused, Volumes: core.NewVolumes(p.volumes),
		Pressure: core.Pressure{Desired: p.node.evict, Reader: left}, Pods: p.pods, Allot: p.allot, Meter: p.meter,
		Facts: p.facts, Burst: p.burst}
	if p.cgroups != nil { // else the interface would not be nil
		o.Cgroups = *p.cgroups
	}
	if most := cfg.CrashLoopBackOff.MaxContainerRestartPeriod; most != nil {
		o.MaxBackoff = most.Duration
	}
	p.kubelet = core.New(o)
	return nil
}

// staticSources returns the sources of static pods that the configuration names: a folder, a URL, both or neither.
func staticSources(cfg *v1beta1.KubeletConfiguration, node string) []core.StaticSource {
	var out []core.StaticSource
	if cfg.StaticPodPath != "" {
		out = append(out, &static.Files{Path: filepath.Clean(cfg.StaticPodPath), Node: node,
			Period: cfg.FileCheckFrequency.Duration})
	}
	if cfg.StaticPodURL != "" {
		out = append(out, &static.URL{Address: cfg.StaticPodURL, Header: cfg.StaticPodURLHeader, Node: node,
			Period: cfg.HTTPCheckFrequency.Duration})
	}
	return out
}
