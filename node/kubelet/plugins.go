package kubelet

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/registration"
)

// plugins are the programs of the node that serve a part of it: the storage drivers, and the drivers of resources.
type plugins struct {
	drivers *csi.Registry
	watcher *registration.Watcher
	online  bool
	// announced: the node has its CSINode. Before that no pod may come: the scheduler would not know the bounds of its
	// volumes.
	announced atomic.Bool
}

// newPlugins returns the plugins that register below the kubelet's folder. Without api (a kubelet without a cluster)
// there are none: what they serve comes from objects of the API.
//
// A node that has its CSINode, as after a restart of the kubelet, is ready at once.
func newPlugins(ctx context.Context, cfg *v1beta1.KubeletConfiguration, o *assembly, api *kube.Kubelet) (*plugins,
	error) {
	if api == nil {
		return &plugins{}, nil
	}
	var err error
	o.allot.Claims, err = dra.New(dra.Options{API: api, Alive: o.Pods.Alive, Changed: o.Pods.Wake, Dir: o.RootDir,
		Meter:    o.Meter,
		Messages: config.On(cfg.FeatureGates, "ResourceHealthStatusMessage")})
	if err != nil {
		return nil, err
	}
	p := &plugins{online: true,
		drivers: csi.NewRegistry(csi.Options{NodeName: o.Node.Name, API: api, Measure: o.Meter.StorageCall})}
	p.watcher = registration.New(filepath.Join(o.RootDir, "plugins_registry"), map[string]registration.Handler{
		registration.CSIPlugin: p.drivers, registration.DRAPlugin: o.allot.Claims.Drivers()})
	ctx, cancel := context.WithTimeout(ctx, knownWait)
	defer cancel()
	if have, err := api.CSINode(ctx); err == nil && have != nil {
		p.announced.Store(true)
	}
	o.Node.StorageAwaited = func() string {
		if p.announced.Load() {
			return ""
		}
		return "the node has no CSINode yet"
	}
	return p, nil
}

// knownWait is how long the start of the kubelet waits for the API server to say whether the node has a CSINode.
const knownWait = time.Second

// run makes the node's CSINode, and registers plugins until ctx ends. It calls ready when the node has become ready
// for volumes.
func (p *plugins) run(ctx context.Context, ready func()) {
	if !p.online {
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
