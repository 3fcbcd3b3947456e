package preflight

import (
	"fmt"
	"slices"
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

// Topologies: the modes of `porthole routes`, and what others make.
const (
	hostGateway = "host-gateway"
	flannel     = "flannel"
	none        = "none"
	topOfRack   = "tor"
	vxlan       = "vxlan"
	bgp         = "bgp"
	ovn         = "ovn"
)

// about says what each mode of `porthole routes` needs.
var about = map[string]string{
	hostGateway: "each node has a route to every other node's pods",
	topOfRack:   "a router outside of the cluster carries the packets: it needs a route to each node's pod range",
	vxlan:       "tunnels over UDP 4789, for nodes in several segments: all nodes have to run the same mode",
	bgp:         "each node tells its pod range to the others, or to a router",
	ovn:         "OVN's own databases and Open vSwitch have to be there",
}

// plugins are the networks that a topology is made for, by the name that routes/fit has for them; nothing: only
// clusters without a network of their own.
var plugins = map[string]string{"flannel": flannel, "ovn-kubernetes": ovn}

// Topologies says of each way to connect pods whether this node can have it in this cluster, and why not. It decides
// by the same facts as the check ClusterNetwork, so that join never sets up what is not "yes" here.
func Topologies(f *Facts) []step.Topology {
	if p := f.Cluster.Problem; p != nil {
		var list []step.Topology
		for _, name := range []string{hostGateway, flannel, none, topOfRack, vxlan, bgp, ovn} {
			list = append(list, step.Topology{Name: name, Result: Unknown,
				Why: "the cluster could not be read: " + p.Text})
		}
		return list
	}
	return []step.Topology{ownOf(f, hostGateway), flannelOf(f), noneOf(f), ownOf(f, topOfRack), ownOf(f, vxlan),
		ownOf(f, bgp), ownOf(f, ovn)}
}

// ownOf is a mode of `porthole routes`, which join sets up.
func ownOf(f *Facts, mode string) step.Topology {
	t, n := step.Topology{Name: mode}, f.Cluster.Network
	if why, do := obstacle(f, mode); why != "" {
		t.Result, t.Why, t.Do = No, why, do
		return t
	}

	t.Result = Yes
	t.Why = about[mode]
	t.Do = "porthole join … " + strings.Join(n.flags(mode), " ")
	switch {
	case !n.Known && n.Declared == "":
		t.Result = Unknown
		t.Why = "the token may not list nodes: join looks with the node's certificate, and takes everything back if it does not fit"
		t.Do = "porthole manifests | kubectl apply -f -, or --discovery-file with the kubeconfig of an administrator"
	case n.mayFit(mode):
		t.Result = Unknown
		t.Why = "the cluster's network is " + n.name() +
			", whose configuration may not be read with a token"
		t.Do = "porthole routes --from-cluster, with the kubeconfig of an administrator, names the flags"
	case mode == hostGateway && n.isFlannel():
		t.Why = "flannel's backend host-gw does the same, and takes this node's routes"
	case n.Advice != nil && n.Advice.Mode == mode:
		t.Why = n.Advice.Why
	}
	if t.Result == Yes && f.System != "windows" && n.plugin() != "" {
		t.Result, t.Do = Manual, t.Do+", on a node that the DaemonSet of "+n.plugin()+" leaves out"
	}
	return t
}

// obstacle returns why a node cannot have a mode of `porthole routes`, and what to do about it; "" if nothing is known
// against it. Topologies and the check ClusterNetwork both decide by it.
func obstacle(f *Facts, mode string) (why, do string) {
	n, pods := f.Cluster.Network, f.Cluster.PodSubnet
	switch foreign := n.foreign(mode, f.System); {
	case pods == "":
		return "the cluster gives nodes no pod ranges", "kubeadm init --pod-network-cidr"
	case !strings.Contains(pods, "."):
		return "porthole routes carries IPv4, alone or beside IPv6, and the cluster's pods have " + pods, ""
	case strings.Contains(pods, ":") && !slices.Contains(dualStack, mode):
		return "it carries IPv4 only, and the cluster's pods have " + pods, ""
	case foreign != "":
		return foreign, n.change()
	case mode == hostGateway && len(n.Remote) > 0:
		return "all nodes have to be in one segment, and these are not: " +
			strings.Join(n.Remote, ", "), "take one that makes tunnels, or routers that know the pod ranges"
	case mode == ovn && n.Known && n.plugin() != "ovn-kubernetes" && n.Declared != ovn:
		return "the cluster does not have OVN", ""
	}
	return "", ""
}

// dualStack are the modes that carry IPv6 beside IPv4, as routes says (node/routes, CheckFamilies); a test compares
// them.
var dualStack = []string{hostGateway, topOfRack}

// flags are those of join for a mode, with what the cluster's own network asks for.
func (n Network) flags(mode string) []string {
	list := []string{"--network " + mode}
	if n.Advice == nil || n.Advice.Mode != mode {
		if mode == ovn {
			list = append(list, "--routes-extra-args=--ovn-remote=tcp:ADDRESS:6642")
		}
		return list
	}
	for _, flag := range n.Advice.Flags {
		switch name, _, _ := strings.Cut(flag, "="); name {
		case "--mode":
		case "--bgp-config":
			list = append(list, flag)
		default:
			list = append(list, "--routes-extra-args="+flag)
		}
	}
	return list
}

func flannelOf(f *Facts) step.Topology {
	t, n := step.Topology{Name: flannel}, f.Cluster.Network
	switch {
	case f.System == "windows":
		t.Result, t.Why = No, "flanneld runs on Linux nodes only"
		if n.isFlannel() {
			t.Do = "a backend host-gw is served with --network host-gateway, vxlan with --network vxlan"
		}
	case n.isFlannel():
		t.Result = Yes
		t.Why = "flannel's DaemonSet serves this node"
		t.Do = "porthole join … --network flannel"
	case !n.Known && n.Advice == nil:
		t.Result, t.Why = Unknown, "the token may not list nodes"
	default:
		t.Result, t.Why = No, "the cluster does not have flannel"
	}
	return t
}

func noneOf(f *Facts) step.Topology {
	if f.System == "windows" {
		return step.Topology{Name: none, Result: No,
			Why: "join does not make a Windows node without porthole-routes: no DaemonSet makes the HNS network"}
	}
	return step.Topology{Name: none, Result: Yes, Why: "a DaemonSet of the cluster, or you, make this node's network",
		Do: "porthole join … --network none"}
}

// plugin returns the cluster's network by the name that routes/fit has for it; "" if none is known.
func (n Network) plugin() string {
	if n.Advice != nil && n.Advice.Plugin != "" {
		return n.Advice.Plugin
	}
	first, _, _ := strings.Cut(strings.ToLower(n.Kind), " ")
	return first
}

// fits are the modes in which a Windows node can be part of somebody else's network, if that is configured for it.
var fits = map[string][]string{"flannel vxlan": {vxlan}, "Calico": {bgp}, "OVN-Kubernetes": {vxlan}}

// mayFit reports whether the mode can be one of the cluster's network, whose configuration was not read: whoever has a
// token may not.
func (n Network) mayFit(mode string) bool {
	return n.Advice == nil && slices.Contains(fits[n.Kind], mode)
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

// foreign returns why a node with a topology cannot be one of the cluster's, because the others have another; "" if
// nothing is known against it.
func (n Network) foreign(topology, system string) string {
	if n.plugin() == "" {
		if n.Declared != "" && n.Declared != topology && topology != none {
			return "the nodes of this cluster have the mode " + n.Declared + " (ConfigMap kube-system/porthole)"
		}
		return ""
	}
	// no flanneld runs there, and porthole-routes tells the others
	windowsHostGateway := topology == hostGateway && system == "windows"
	switch {
	case topology == none, plugins[n.plugin()] == topology:
		return ""
	case n.Advice != nil && n.Advice.Mode == topology && (system == "windows" || topology != hostGateway):
		return ""
	case n.Kind == "flannel host-gw" && windowsHostGateway:
		return ""
	case n.mayFit(topology) && system == "windows":
		return ""
	}
	return fmt.Sprintf("the cluster's network is %s", n.name())
}
