package routes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/cni/sweep"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/routes/adapters"
	"porthole.dev/porthole/routes/hostroutes"
	"porthole.dev/porthole/routes/podnet"
)

// hnsMaker makes the network of a Windows node. It is built on every system, so that it can be tested on a fake.
type hnsMaker struct {
	hns     *podnet.HNS
	keeper  *adapters.Keeper
	routes  *hostroutes.Keeper // nil: the host's routes are not saved
	replace bool               // a network that does not fit may be replaced although it holds endpoints
	adapter string             // the adapter that a new network is bound to; empty: the one with the node's address
	sweep   *sweep.Sweeper
}

// ensure makes the network in HNS, bound to the adapter of the options. Without one it names the physical adapter that
// has the node's address, because HNS may otherwise take another one.
func (m hnsMaker) ensure(ctx context.Context, o podnet.Options, wanted podnet.Network) (podnet.Made, error) {
	wanted.HNS.Adapter = physical(m.adapter)
	if m.adapter == "" {
		name, err := m.keeper.NameOf(o.Node)
		if err != nil {
			return podnet.Made{}, err
		}
		wanted.HNS.Adapter = physical(name)
	}

	wanted.Base.Adapter = wanted.HNS.Adapter
	if wanted.HNS.Type == hns.Overlay {
		wanted.HNS.Management = o.Node
	}

	made, err := m.hns.Ensure(ctx, wanted, m.replace)
	if made.Changed {
		klog.FromContext(ctx).Info("Changed the pod network in HNS", "adapter", wanted.HNS.Adapter)
	}
	if hns.IsNoAdapter(err) {
		err = m.explainAdapter(wanted.HNS.Adapter, err)
	}
	return made, err
}

// explainAdapter adds to the error of a network for which HNS knows no adapter what the host has. Network cards
// without an address are not among them.
func (m hnsMaker) explainAdapter(name string, cause error) error {
	names, err := m.keeper.Names()
	if err != nil {
		return errors.Join(cause, err)
	}
	for i, n := range names {
		names[i] = strconv.Quote(physical(n))
	}
	return fmt.Errorf("%w: HNS knows no network adapter %q; this host has %s (choose one with --adapter)", cause, name,
		strings.Join(names, ", "))
}

// physical returns the name of the network adapter that a virtual adapter belongs to, or name if that is no virtual
// one. When HNS binds a network to the adapter NAME, its address moves to a virtual adapter "vEthernet (NAME)". HNS
// accepts only NAME, and answers "An adapter was not found" to the other (flannel-io/flannel#921).
func physical(name string) string {
	if inner, ok := strings.CutPrefix(name, "vEthernet ("); ok {
		return strings.TrimSuffix(inner, ")")
	}
	return name
}

func (m hnsMaker) conf(wanted podnet.Network) podnet.Conf { return wanted.WindowsConf }

func (m hnsMaker) heldBack() string { return podnet.WindowsConfName }

func (m hnsMaker) sweeper() *sweep.Sweeper { return m.sweep }

func (m hnsMaker) adapters() adapterKeeper { return m.keeper }

func (m hnsMaker) hostRoutes() routeSaver {
	if m.routes == nil {
		return nil
	}
	return m.routes
}
