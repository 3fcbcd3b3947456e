package preflight

import (
	"fmt"
	"strings"

	"porthole.dev/porthole/join/step"
)

// Results of a topology.
const (
	Yes     = "yes"
	Manual  = "manual"
	No      = "no"
	Unknown = "unknown"
)

// Topologies that join sets up; the others are modes of `porthole routes`.
const (
	hostGateway = "host-gateway"
	flannel     = "flannel"
	none        = "none"
	topOfRack   = "tor"
	vxlan       = "vxlan"
	bgp         = "bgp"
	ovn         = "ovn"
)

// plugins are the networks that a topology is made for, by the name that routes/fit has for them; nothing: only clusters without a network
// of their own.
var plugins = map[string]string{"flannel": flannel, "ovn-kubernetes": ovn}

// Topologies says of each way to connect pods whether this node can have it in this cluster, and why not. It decides by the same facts as
// the check ClusterNetwork, so that join never sets up what is not "yes" here.
func Topologies(f *Facts) []step.Topology {
	if p := f.Cluster.Problem; p != nil {
		var list []step.Topology
		for _, name := range []string{hostGateway, flannel, none, topOfRack, vxlan, bgp, ovn} {
			list = append(list, step.Topology{Name: name, Result: Unknown, Why: "the cluster could not be read: " + p.Text})
		}
		return list
	}
	return []step.Topology{hostGatewayOf(f), flannelOf(f), noneOf(f),
		manual(f, topOfRack, "a router outside of the cluster carries the packets: it needs a route to each node's pod range"),
		manual(f, vxlan, "tunnels over UDP 4789, for nodes in several segments: all nodes have to run the same mode"),
		manual(f, bgp, "each node tells its pod range to the others, or to a router"),
		manual(f, ovn, "OVN's own databases and Open vSwitch have to be there"),
	}
}

func hostGatewayOf(f *Facts) step.Topology {
	t, n := step.Topology{Name: hostGateway}, f.Cluster.Network
	switch foreign := n.foreign(hostGateway, f.System); {
	case f.Cluster.PodSubnet == "":
		t.Result, t.Why, t.Do = No, "the cluster gives nodes no pod ranges", "kubeadm init --pod-network-cidr"
	case foreign != "":
		t.Result, t.Why, t.Do = No, foreign, n.change()
	case len(n.Remote) > 0:
		t.Result, t.Why = No, "all nodes have to be in one segment, and these are not: "+strings.Join(n.Remote, ", ")
		t.Do = "take one that makes tunnels, or routers that know the pod ranges"
	case !n.Known && n.Declared == "":
		t.Result, t.Why = Unknown, "the token may not list nodes: join looks with the node's certificate, and takes everything back if it does not fit"
		t.Do = "porthole manifests | kubectl apply -f -, or --discovery-file with the kubeconfig of an administrator"
	default:
		t.Result, t.Why, t.Do = Yes, "each node has a route to every other node's pods", "porthole join … --network host-gateway"
		if n.isFlannel() {
			t.Why = "flannel's backend host-gw does the same, and takes this node's routes"
		}
	}
	return t
}

func flannelOf(f *Facts) step.Topology {
	t, n := step.Topology{Name: flannel}, f.Cluster.Network
	switch {
	case f.System == "windows":
		t.Result, t.Why = No, "flanneld runs on Linux nodes only"
		if n.isFlannel() {
			t.Do = "a backend host-gw is served with --network host-gateway, vxlan with porthole routes --mode=vxlan"
		}
	case n.isFlannel():
		t.Result, t.Why, t.Do = Yes, "flannel's DaemonSet serves this node", "porthole join … --network flannel"
	case !n.Known && n.Advice == nil:
		t.Result, t.Why = Unknown, "the token may not list nodes"
	default:
		t.Result, t.Why = No, "the cluster does not have flannel"
	}
	return t
}

func noneOf(f *Facts) step.Topology {
	if f.System == "windows" {
		return step.Topology{Name: none, Result: No, Why: "join does not make a Windows node without porthole-routes: no DaemonSet makes the HNS network"}
	}
	return step.Topology{Name: none, Result: Yes, Why: "a DaemonSet of the cluster, or you, make this node's network", Do: "porthole join … --network none"}
}

// manual is a mode of porthole-routes that join does not set up.
func manual(f *Facts, mode, about string) step.Topology {
	t, n := step.Topology{Name: mode, Result: Manual, Why: about}, f.Cluster.Network
	family := f.Cluster.PodSubnet != "" && !strings.Contains(f.Cluster.PodSubnet, ".")
	switch foreign := n.foreign(mode, f.System); {
	case family && mode != topOfRack:
		t.Result, t.Why = No, "it carries IPv4 only, and the cluster's pods have "+f.Cluster.PodSubnet
	case foreign != "":
		t.Result, t.Why, t.Do = No, foreign, n.change()
	case mode == ovn && n.plugin() != "ovn-kubernetes":
		t.Result, t.Why = No, "the cluster does not have OVN"
	default:
		flags := "--mode=" + mode
		if n.Advice != nil && n.Advice.Mode == mode {
			t.Why, flags = n.Advice.Why, strings.Join(n.Advice.Flags, " ")
		}
		t.Do = "porthole service install for each program, and porthole routes " + flags
		if f.System != "windows" {
			t.Do = "porthole join … --network none, then porthole routes " + flags
		}
	}
	return t
}

// plugin returns the cluster's network by the name that routes/fit has for it; "" if none is known.
func (n Network) plugin() string {
	if n.Advice != nil && n.Advice.Plugin != "" {
		return n.Advice.Plugin
	}
	first, _, _ := strings.Cut(strings.ToLower(n.Kind), " ")
	return first
}

func (n Network) isFlannel() bool { return n.plugin() == "flannel" }

// name is the cluster's network for people.
func (n Network) name() string {
	if n.Kind != "" {
		return n.Kind
	}
	return n.plugin()
}

// Name is the network that the cluster was found to have, for people; "" if it says nothing.
func (n Network) Name() string {
	if n.name() == "" && n.Declared != "" {
		return "porthole routes, mode " + n.Declared
	}
	return n.name()
}

// change is what somebody could change so that another topology fits.
func (n Network) change() string {
	if n.Advice == nil {
		return ""
	}
	return strings.Join(n.Advice.Change, "; ")
}

// foreign returns why a node with a topology cannot be one of the cluster's, because the others have another; "" if nothing is known
// against it.
func (n Network) foreign(topology, system string) string {
	if n.plugin() == "" {
		if n.Declared != "" && n.Declared != topology && topology != none {
			return "the nodes of this cluster have the mode " + n.Declared + " (ConfigMap kube-system/porthole)"
		}
		return ""
	}
	windowsHostGateway := topology == hostGateway && system == "windows" // no flanneld runs there, and porthole-routes tells the others
	switch {
	case topology == none, plugins[n.plugin()] == topology:
		return ""
	case n.Advice != nil && n.Advice.Mode == topology && (system == "windows" || topology != hostGateway):
		return ""
	case n.Kind == "flannel host-gw" && windowsHostGateway:
		return ""
	}
	return fmt.Sprintf("the cluster's network is %s", n.name())
}
