package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/openvswitch"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/ovn/controller"
)

// ovnNetwork is Open vSwitch and OVN of Debian on every host: the databases and our controller beside the control
// plane, and switch and ovn-controller on each node. The tunnels have network cards of their own (eth1), because the
// switch is a program here and takes the card that it sends them by.
var ovnNetwork = network{
	preflight: func(Layout, Config) []error {
		if err := openvswitch.Check(); err != nil {
			return []error{err}
		}
		return nil
	},
	prepare:    prepareOVN,
	node:       ovnNode,
	routes:     ovnRoutes,
	facts:      ovnFacts,
	services:   askOVN,
	plugins:    []string{"ovn_cni"},
	drivers:    []string{openvswitch.Driver},
	secondCard: true,
}

// tunnels is the segment of the cards for tunnels.
var tunnels = netip.MustParsePrefix("10.98.0.0/24")

// tunnelCard returns the card for tunnels of a node.
func tunnelCard(n Node) lab.Card { return lab.Card{Address: n.addressIn(tunnels)} }

func ovnCentral(l Layout) openvswitch.Central {
	return openvswitch.Central{Dir: l.at("ovn"), Listen: address(11)}
}

func ovnHost(l Layout, n Node) openvswitch.Host {
	return openvswitch.Host{Dir: l.NodeFile(n.Name, "openvswitch"), TCP: n.Windows}
}

// prepareOVN makes databases and cards, and puts the plugin among those of Linux nodes.
func prepareOVN(l Layout, c Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), slow.Limit(time.Minute))
	defer cancel()
	errs := []error{
		ovnCentral(l).Prepare(ctx),
		installProgram(filepath.Join(l.Bin, "ovn_cni"), filepath.Join(l.Bundled("cni"), "ovn_cni")),
	}
	for _, n := range c.Nodes() {
		if err := errors.Join(ovnHost(l, n).Prepare(ctx),
			c.lab().EnsureCards(n.Name, []lab.Card{tunnelCard(n)})); err != nil {
			errs = append(errs, fmt.Errorf("node %s: Open vSwitch: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// ovnNode adds the daemons of a node; those of the whole cluster run on the first.
func ovnNode(p *planner, n Node) {
	daemons := ovnHost(p.l, n).Daemons()
	first := n.Address == address(11)
	if first {
		daemons = append(daemons, ovnCentral(p.l).Daemons()...)
	}
	for _, d := range daemons {
		var wait []supervise.Condition
		if d.After != "" {
			wait = []supervise.Condition{{Path: d.After, Dial: true}}
		}
		p.add(supervise.Process{Name: n.Name + "/" + d.Name, Node: n.Name, Path: d.Path, Args: d.Args, Env: d.Env,
			Netns: p.netns(n.Name),
			Log:   p.l.NodeLog(n.Name, d.Name), WaitFor: wait})
	}

	if first {
		central := ovnCentral(p.l)
		p.add(supervise.Process{Name: n.Name + "/ovn-control-plane", Node: n.Name, Path: p.l.Porthole(),
			Netns: p.netns(n.Name), Log: p.l.NodeLog(n.Name, "ovn-control-plane"),
			WaitFor: []supervise.Condition{p.apiReady(), {Path: central.NB(), Dial: true}},
			Args: []string{"ovn-control-plane", "--kubeconfig=" + kubeconfigOf(p.l, "ovn"),
				"--nb=" + central.NBAddress(), "--sb=" + central.SBAddress(),
				"--cluster-cidr=" + join(p.ranges.pods), "--service-cidr=" + join(p.ranges.services),
				fmt.Sprint("--node-cidr-mask-size=", p.ranges.masks[0])}})
	}
	if n.Windows {
		p.add(supervise.Process{Name: n.Name + "/host-ovs", Node: n.Name, Path: p.l.Porthole(), Netns: p.netns(n.Name),
			Log:     p.l.NodeLog(n.Name, "host-ovs"),
			WaitFor: []supervise.Condition{{Path: ovnHost(p.l, n).Socket(), Dial: true}},
			Args: []string{"host-ovs", "--dir=" + ovnHost(p.l, n).Dir,
				"--address=" + tunnelCard(n).Address.String()}})
	}
}

// ovnRoutes returns the flags of the mode. On Windows nodes the installation of Open vSwitch, which is host-ovs here,
// has joined the card to br-ex.
func ovnRoutes(l Layout, _ Config, n Node, _ string) []string {
	args := []string{"--ovn-remote=" + ovnCentral(l).SBAddress(),
		"--ovn-encap-ip=" + tunnelCard(n).Address.Addr().String(), "--ovn-datapath=netdev"}
	if n.Windows {
		return append(args, "--ovn-db=tcp:"+openvswitch.LocalAddress)
	}
	return append(args, "--ovn-db=unix:"+ovnHost(l, n).Socket(), "--ovn-uplink=eth1")
}

// ovnFacts returns where the databases are: those of OVN on the first node.
func ovnFacts(l Layout, n Node) []string {
	if n.Windows {
		return []string{"--ovn-db=tcp:" + openvswitch.LocalAddress}
	}
	args := []string{"--ovn-db=unix:" + ovnHost(l, n).Socket()}
	if n.Address == address(11) {
		args = append(args, "--ovn-nb=unix:"+ovnCentral(l).NB(), "--ovn-sb=unix:"+ovnCentral(l).SB())
	}
	return args
}

// askOVN asks the controller, which works for all nodes, about the load balancers.
func askOVN(ctx context.Context, c Config) Counts {
	client := inspect.ClientIn(platform.NetnsPath(c.lab().Netns("lin01")))
	defer client.CloseIdleConnections()
	var answer controller.Status
	if err := ask(ctx, client, "http://127.0.0.1:10262/status", &answer); err != nil {
		return Counts{Error: err.Error()}
	}
	return Counts{Wanted: answer.LoadBalancers, Present: answer.LoadBalancers, Problems: answer.Problems,
		Error: answer.Error}
}
