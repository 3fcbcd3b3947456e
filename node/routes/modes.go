package routes

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/routes/bgp"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/hostgw"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/ovn"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/tor"
	"porthole.dev/porthole/routes/vxlan"
)

// DefaultMode is the mode of a node for which none is chosen.
const DefaultMode = "host-gateway"

// modes are the ways to carry packets between nodes. Another mode is another line.
var modes = modeTable{
	{"host-gateway", newHostGateway},
	{"tor", newTor},
	{"vxlan", newVXLAN},
	{BGP, newBGP},
	{OVN, newOVN},
}

// BGP is the name of the mode bgp.
const BGP = "bgp"

// dualStack are the modes that carry IPv6 beside IPv4.
var dualStack = []string{"host-gateway", "tor"}

// CheckFamilies returns an error if a mode does not carry IPv6, for a cluster whose pods have a range of it.
func CheckFamilies(mode string) error {
	if slices.Contains(dualStack, mode) {
		return nil
	}
	return fmt.Errorf("mode %s carries IPv4 only: give ranges of IPv4 alone, or choose one of %s", mode,
		strings.Join(dualStack, ", "))
}

type modeTable []struct {
	name string // as --mode takes it
	make func(environment) (keeper, error)
}

// environment is what a mode can know when it is made.
type environment struct {
	Node string     // this node's name
	Addr netip.Addr // its address on the segment that nodes share
	// NodeIP is Addr if it was chosen by --node-ip. Zero: Addr is that of the Node object, which may change.
	NodeIP  netip.Addr
	Cluster netip.Prefix // the range of all pods
	// Cluster6 is that of IPv6; zero: there is none.
	Cluster6 netip.Prefix
	Keep     keep.Options
	// Annotate sets annotations of this node, through which nodes tell each other what a mode needs.
	Annotate func(ctx context.Context, annotations map[string]string) error
	VXLAN    vxlan.Config
	BGP      bgp.Config
	Services netip.Prefix
	// Services6 is that of IPv6; zero: there is none.
	Services6            netip.Prefix
	NodeBits4, NodeBits6 int         // lengths of nodes' pod ranges; 0: those of this node
	OVN                  ovn.Options // what its flags say
	// Pod returns the UID and the annotations of a pod.
	Pod func(ctx context.Context, namespace, name string) (uid string, annotations map[string]string, err error)
	// Pods returns what is known of the pods of this node while it is cordoned.
	Pods func() bgp.Pods
}

// ranges are those of all pods, one for each family.
func (e environment) ranges() []netip.Prefix {
	if !e.Cluster6.IsValid() {
		return []netip.Prefix{e.Cluster}
	}
	return []netip.Prefix{e.Cluster, e.Cluster6}
}

// cluster is what nodes' claims are held against.
func (e environment) cluster() table.Cluster {
	c := table.Cluster{Pods: e.ranges(), NodeBits4: e.NodeBits4, NodeBits6: e.NodeBits6}
	for _, p := range []netip.Prefix{e.Services, e.Services6} {
		if p.IsValid() {
			c.Services = append(c.Services, p)
		}
	}
	return c
}

// keeper is a mode at work; keep.Keeper implements it for every mode.
type keeper interface {
	// Network returns the pod network that the mode needs.
	Network(podnet.Options) (podnet.Network, error)
	// Sync makes one pass, Run one after the other until ctx ends, Changed makes the next one come soon.
	Sync(ctx context.Context)
	Run(ctx context.Context)
	Changed()
	Status() keep.Status
}

func newHostGateway(e environment) (keeper, error) {
	table, err := fib.New(e.Addr, e.ranges()...)
	if err != nil {
		return nil, err
	}
	e.Keep.Period = fullCheck
	return hostGateway{keep.New(hostgw.New(e.Node, e.cluster(), table), e.Keep)}, nil
}

func newTor(e environment) (keeper, error) {
	table, err := fib.New(e.Addr, e.ranges()...)
	if err != nil {
		return nil, err
	}
	return keep.New(tor.New(e.Node, e.cluster(), table), e.Keep), nil
}

// newVXLAN returns the overlay.
func newVXLAN(e environment) (keeper, error) {
	mode, err := vxlan.New(vxlan.Options{Node: e.Node, Addr: e.Addr, Config: e.VXLAN, Cluster: e.Cluster,
		Ranges: e.cluster(), Annotate: e.Annotate, HNS: overlayHNS()})
	if err != nil {
		return nil, err
	}
	e.Keep.Period = vxlan.Period
	return keep.New(mode, e.Keep), nil
}

// newBGP limits garbage unless the user decides about it.
func newBGP(e environment) (keeper, error) {
	limitGarbage(bgp.GarbagePercent)
	table, err := fib.New(e.Addr, append([]netip.Prefix{e.Cluster}, e.BGP.Accepted()...)...)
	if err != nil {
		return nil, err
	}
	return keep.New(bgp.New(bgp.Options{Node: e.Node, Addr: e.Addr, Cluster: e.Cluster, Ranges: e.cluster(),
		Config: e.BGP, Pods: e.Pods}, table), e.Keep), nil
}

func (t modeTable) names() []string {
	var names []string
	for _, m := range t {
		names = append(names, m.name)
	}
	return names
}

// start makes the mode of that name. It does nothing before its keeper runs.
func (t modeTable) start(name string, e environment) (keeper, error) {
	for _, m := range t {
		if m.name == name {
			return m.make(e)
		}
	}
	return nil, fmt.Errorf("mode %q is not known", name)
}

// Modes returns the names of the modes.
func Modes() []string { return modes.names() }
