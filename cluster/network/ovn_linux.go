package network

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/process"
	"porthole.dev/porthole/cluster/status"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/openvswitch"
	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/ovn/controller"
)

// ovn is Open vSwitch and OVN of Debian on every host: the databases and our controller beside the control plane, and
// switch and ovn-controller on each node. The tunnels have network cards of their own (eth1), because the switch is a
// program here and takes the card that it sends them by.
var ovn = Mode{
	Preflight: func(layout.Layout, config.Cluster) []error {
		if err := openvswitch.Check(); err != nil {
			return []error{err}
		}
		return nil
	},
	Prepare:  prepareOVN,
	Node:     ovnNode,
	Routes:   ovnRoutes,
	Facts:    ovnFacts,
	Services: askOVN,
	Plugins:  []string{"ovn_cni"},
	Drivers:  []string{openvswitch.Driver},
}

func ovnCentral(l layout.Layout) openvswitch.Central {
	return openvswitch.Central{Dir: l.OVN(), Listen: config.ControlPlane()}
}

// ovnIsFirst reports whether a node is the one with what the whole cluster has once.
func ovnIsFirst(n config.Node) bool { return n.Address == config.ControlPlane() }

func ovnHost(l layout.Layout, n config.Node) openvswitch.Host {
	return openvswitch.Host{Dir: l.NodeFile(n.Name, "openvswitch"), TCP: n.Windows}
}

// prepareOVN makes databases and cards, and puts the plugin among those of Linux nodes.
func prepareOVN(l layout.Layout, c config.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), slow.Limit(time.Minute))
	defer cancel()
	errs := []error{
		ovnCentral(l).Prepare(ctx),
		install.Program(filepath.Join(l.Bin, "ovn_cni"), filepath.Join(l.Bundled("cni"), "ovn_cni")),
	}
	for _, n := range c.Nodes() {
		if err := errors.Join(ovnHost(l, n).Prepare(ctx),
			c.Lab().EnsureCards(n.Name, []lab.Card{n.TunnelCard()})); err != nil {
			errs = append(errs, fmt.Errorf("node %s: Open vSwitch: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// ovnNode returns the daemons of a node; those of the whole cluster run on the first.
func ovnNode(l layout.Layout, c config.Cluster, n config.Node) (list []supervise.Process, err error) {
	daemons := ovnHost(l, n).Daemons()
	if ovnIsFirst(n) {
		daemons = append(daemons, ovnCentral(l).Daemons()...)
	}
	for _, d := range daemons {
		p := process.OnNode(l, c, n.Name, d.Name)
		p.Path = d.Path
		p.Args = d.Args
		p.Env = d.Env
		if d.After != "" {
			p.WaitFor = []supervise.Condition{{Path: d.After, Dial: true}}
		}
		list = append(list, p)
	}

	if ovnIsFirst(n) {
		p, err := ovnControlPlane(l, c, n)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if n.Windows {
		p := process.OnNode(l, c, n.Name, "host-ovs")
		p.Path = l.Porthole()
		p.WaitFor = []supervise.Condition{{Path: ovnHost(l, n).Socket(), Dial: true}}
		p.Args = []string{"host-ovs", "--dir=" + ovnHost(l, n).Dir, "--address=" + n.TunnelCard().Address.String()}
		list = append(list, p)
	}
	return list, nil
}

// ovnControlPlane returns our controller, which works for all nodes.
func ovnControlPlane(l layout.Layout, c config.Cluster, n config.Node) (supervise.Process, error) {
	p := process.OnNode(l, c, n.Name, "ovn-control-plane")
	ranges, err := c.Ranges()
	if err != nil {
		return p, err
	}
	central := ovnCentral(l)
	p.Path = l.Porthole()
	p.WaitFor = []supervise.Condition{process.APIReady(c), {Path: central.NB(), Dial: true}}
	p.Args = []string{"ovn-control-plane", "--kubeconfig=" + l.KubeconfigOf("ovn"),
		"--nb=" + central.NBAddress(), "--sb=" + central.SBAddress(),
		"--cluster-cidr=" + ranges.PodCIDRs(), "--service-cidr=" + ranges.ServiceCIDRs(),
		fmt.Sprint("--node-cidr-mask-size=", ranges.Masks[0])}
	return p, nil
}

// ovnRoutes returns the flags of the mode. On Windows nodes the installation of Open vSwitch, which is host-ovs here,
// has joined the card to br-ex.
func ovnRoutes(l layout.Layout, _ config.Cluster, n config.Node, _ string) []string {
	args := []string{"--ovn-remote=" + ovnCentral(l).SBAddress(),
		"--ovn-encap-ip=" + n.TunnelCard().Address.Addr().String(), "--ovn-datapath=netdev"}
	if n.Windows {
		return append(args, "--ovn-db=tcp:"+openvswitch.LocalAddress)
	}
	return append(args, "--ovn-db=unix:"+ovnHost(l, n).Socket(), "--ovn-uplink=eth1")
}

// ovnFacts returns where the databases are: those of OVN on the first node.
func ovnFacts(l layout.Layout, n config.Node) []string {
	if n.Windows {
		return []string{"--ovn-db=tcp:" + openvswitch.LocalAddress}
	}
	args := []string{"--ovn-db=unix:" + ovnHost(l, n).Socket()}
	if ovnIsFirst(n) {
		args = append(args, "--ovn-nb=unix:"+ovnCentral(l).NB(), "--ovn-sb=unix:"+ovnCentral(l).SB())
	}
	return args
}

// askOVN asks the controller, which works for all nodes, about the load balancers.
func askOVN(ctx context.Context, c config.Cluster) status.Counts {
	client := inspect.ClientIn(c.Netns("lin01"))
	defer client.CloseIdleConnections()
	var answer controller.Status
	if err := inspect.Document(ctx, client, "http://127.0.0.1:10262/status", &answer); err != nil {
		return status.Counts{Error: err.Error()}
	}
	return status.Counts{Wanted: answer.LoadBalancers, Present: answer.LoadBalancers, Problems: answer.Problems,
		Error: answer.Error}
}
