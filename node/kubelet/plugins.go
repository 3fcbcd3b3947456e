package kubelet

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/registration"
)

// plugins are the programs of the node that serve a part of it: the storage drivers, and the drivers of resources.
type plugins struct {
	drivers *csi.Registry
	claims  *dra.Manager // nil without a cluster
	watcher *registration.Watcher
	health  bool // the health of devices is shown in the status of pods
	// announced: the node has its CSINode. Before that no pod may come: the scheduler would not know the bounds of its
	// volumes.
	announced atomic.Bool
}

// makePlugins makes what registers the plugins below the kubelet's folder. Without a cluster there are none: what they
// serve comes from objects of the API.
//
// A node that has its CSINode, as after a restart of the kubelet, is ready at once.
func (p *parts) makePlugins(ctx context.Context) (err error) {
	p.plugins = &plugins{health: config.On(p.cfg.FeatureGates, "ResourceHealthStatus")}
	client := p.api.client
	if client == nil {
		return nil
	}
	l := p.plugins
	l.claims, err = dra.New(dra.Options{API: client, Dir: p.host.root, Meter: p.meter, Alive: p.pods.Alive,
		Changed: p.pods.Wake, Messages: config.On(p.cfg.FeatureGates, "ResourceHealthStatusMessage")})
	if err != nil {
		return err
	}
	l.drivers = csi.NewRegistry(csi.Options{NodeName: p.host.name, API: client, Measure: p.meter.StorageCall})
	l.watcher = registration.New(filepath.Join(p.host.root, "plugins_registry"), map[string]registration.Handler{
		registration.CSIPlugin: l.drivers, registration.DRAPlugin: l.claims.Drivers()})

	ctx, cancel := context.WithTimeout(ctx, knownWait)
	defer cancel()
	if have, err := client.CSINode(ctx); err == nil && have != nil {
		l.announced.Store(true)
	}
	return nil
}

// awaited returns why volumes of storage drivers cannot be placed on the node yet, "" if they can.
func (p *plugins) awaited() string {
	if p.claims == nil || p.announced.Load() {
		return ""
	}
	return "the node has no CSINode yet"
}

// knownWait is how long the start of the kubelet waits for the API server to say whether the node has a CSINode.
const knownWait = time.Second

// run makes the node's CSINode, and registers plugins until ctx ends. It calls ready when the node has become ready
// for volumes.
func (p *plugins) run(ctx context.Context, ready func()) {
	if p.claims == nil {
		return
	}
	if err := p.drivers.Announce(ctx); err != nil {
		return // ctx has ended
	}
	if !p.announced.Swap(true) {
		ready()
	}
	if err := p.watcher.Run(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Plugins cannot register")
	}
}
