package routes

import (
	"context"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/sweep"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/routes/adapters"
	"porthole.dev/porthole/routes/hostroutes"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/vxlan"
)

func newMaker(o Options) (maker, error) {
	client := hcn.New(hcn.Options{})
	keeper := adapters.New(adapters.NewHost(o.Cluster6.IsValid()))
	routes := hostroutes.New(hostroutes.NewHost(), o.StateDir, o.Cluster, o.Cluster6)
	m := hnsMaker{
		hns: &podnet.HNS{Reader: client, Writer: hcn.Host{Client: client}, Balancers: client,
			Overlays: hcn.Overlay{Client: client}, Adapters: keeper, Before: routes.Save},
		keeper: keeper, routes: routes, replace: o.ReplaceNetwork, adapter: o.Adapter,
	}
	if o.RuntimeEndpoint != "" {
		m.sweep = &sweep.Sweeper{
			Plugin: attach.Plugin{Reader: client, Writer: client},
			Sandboxes: func(ctx context.Context) ([]string, error) {
				return runtime.SandboxIDs(ctx, o.RuntimeEndpoint)
			},
		}
	}
	return m, nil
}

// fullCheck is how often the host's routes are compared with those that are wanted although no change was reported.
const fullCheck = keep.DefaultPeriod

// overlayHNS returns the HNS that the mode vxlan changes.
func overlayHNS() vxlan.HNS { return hcn.Overlay{Client: hcn.New(hcn.Options{})} }
