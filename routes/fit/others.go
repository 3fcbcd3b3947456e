package fit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// plugins are network plugins by the name of their DaemonSet. The first that fits counts: chained ones come last.
var plugins = []struct{ plugin, daemonSet string }{
	{"flannel", "kube-flannel-ds"}, {"flannel", "canal"},
	{"calico", "calico-node"},
	{"cilium", "cilium"}, {"antrea", "antrea-agent"},
	{"ovn-kubernetes", "ovnkube-node"}, {"ovn-kubernetes", "ovn-kubernetes-node"}, {"kube-ovn", "kube-ovn-cni"},
	{"azure", "azure-cns"}, {"azure", "azure-cni"}, {"aws", "aws-node"}, {"gke", "netd"},
	{"weave", "weave-net"}, {"kube-router", "kube-router"}, {"kindnet", "kindnet"}, {"romana", "romana-agent"},
	{"contiv", "contiv-vswitch"},
}

// pluginOf returns the network plugin that a DaemonSet belongs to; empty: none that is known.
func pluginOf(w Workload) string {
	for _, p := range plugins {
		if w.Name == p.daemonSet || strings.HasPrefix(w.Name, p.daemonSet+"-") && p.daemonSet == "kube-flannel-ds" {
			return p.plugin
		}
	}
	return ""
}

// plugin returns the first network plugin of the cluster, and its DaemonSet.
func (c Cluster) plugin() (string, Workload) {
	for _, p := range plugins {
		i := slices.IndexFunc(c.Workloads, func(w Workload) bool { return pluginOf(w) == p.plugin })
		if i >= 0 {
			return p.plugin, c.Workloads[i]
		}
	}
	return "", Workload{}
}

// other advises about a plugin that has no configuration to look into, or one that is only looked into a little.
func (a *Advice) other(c Cluster, plugin string, w Workload) {
	switch plugin {
	case "cilium":
		a.cilium(c)
	case "flannel":
		a.Why =
			"flannel's DaemonSet is there, and its ConfigMap is not: flanneld may have its configuration in etcd or in another ConfigMap"
		a.change(
			"read \"Backend\" in flannel's configuration: host-gw fits --mode=host-gateway; vxlan with VNI 4096 or more and port 4789 fits --mode=vxlan")
	case "kindnet":
		a.Mode = hostGateway
		a.Why = "kindnet routes to each node's own address, for every node of the cluster"
	case "kube-router":
		a.kubeRouter(w)

	case "ovn-kubernetes":
		a.Mode = vxlan
		a.Why = "OVN-Kubernetes takes Windows nodes by its hybrid overlay, a VXLAN with VNI 4097 and port 4789"
		a.Flags = []string{"--vxlan-vni=4097"}
		a.note(
			"enable the hybrid overlay in OVN-Kubernetes (--enable-hybrid-overlay, with a hybrid overlay range for Windows nodes): it gives each Windows node its pod range and its gateway in annotations k8s.ovn.org/hybrid-overlay-*")
	case "antrea", "azure", "kube-ovn":
		a.Why = own[plugin]
		a.change(
			"leave the network of Windows nodes to this plugin: install its own agent for Windows; our kubelet and service proxy work with its CNI plugin, and `porthole routes` is not started")
	default:
		a.Why = own[plugin]
		a.change(
			"move the cluster to a network that Windows nodes can join: flannel with host-gw, or with VXLAN (VNI 4096, port 4789), or Calico with BGP and no encapsulation")
	}
}

// own says of a plugin why no mode of ours fits.
var own = map[string]string{
	"antrea":   "Antrea carries packets by Open vSwitch, and its nodes route only to nodes that run its agent, which exists for Windows",
	"azure":    "with Azure's plugin pods have addresses of the virtual network, which Azure itself gives and routes",
	"kube-ovn": "Kube-OVN gives addresses from its own subnets, and its nodes reach only ports that its controller knows",
	"aws":      "with Amazon's plugin pods have addresses of the VPC's interfaces, which only Amazon's own controller gives to Windows nodes",
	"gke":      "the network of GKE is managed by Google, which also offers its Windows nodes",
	"weave":    "Weave Net never had a Windows agent and is no longer maintained",
	"romana":   "Romana has no Windows agent and is no longer maintained",
	"contiv":   "Contiv has no Windows agent and is no longer maintained",
}

// cilium advises by what Cilium's ConfigMap says. Cilium has no Windows agent.
func (a *Advice) cilium(c Cluster) {
	routing := c.data(ciliumConfig, "routing-mode")
	if old := c.data(ciliumConfig, "tunnel"); routing == "" && old != "" { // before 1.14
		routing = "tunnel"
		if old == "disabled" {
			routing = "native"
		}
	}
	a.found(fmt.Sprintf("Cilium: routing %s, IPAM %s", or(routing, "tunnel (default)"),
		or(c.data(ciliumConfig, "ipam"), "cluster-pool (default)")))
	if routing != "native" {
		a.Why = "Cilium's tunnel carries identities that only its own agent understands, and there is none for Windows"
		a.change(
			"routing-mode: native, ipam: kubernetes, and a router (or BGP) that knows each node's pod range; then --mode=tor fits")
		return
	}

	a.Mode = topOfRack
	a.Why = "Cilium routes natively: a router that knows each node's pod range carries packets to nodes without Cilium too"
	if c.data(ciliumConfig, "auto-direct-node-routes") == "true" {
		a.note(
			"auto-direct-node-routes makes routes to nodes of Cilium only; packets for Windows nodes go to the default gateway, which needs the routes (`porthole routes --print-router`)")
	}
	if c.data(ciliumConfig, "enable-bgp-control-plane") == "true" {
		a.note(
			"Cilium's BGP control plane is on: with --mode=bgp our nodes can announce their ranges to the same router")
	}
	if ipam := c.data(ciliumConfig, "ipam"); ipam != "kubernetes" {
		a.note("with ipam " + or(ipam, "cluster-pool") +
			" Cilium's ranges are not those of the nodes' spec.podCIDR: they must not overlap with the ranges of Windows nodes (ipam: kubernetes agrees with them)")
	}
	a.note("Cilium's policies see pods of Windows nodes as addresses outside of the cluster")
}

// kubeRouter advises by the arguments of kube-router.
func (a *Advice) kubeRouter(w Workload) {
	as, overlay := uint64(64512), true // its defaults
	for _, arg := range w.Args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch name {
		case "cluster-asn":
			if n, err := strconv.ParseUint(value, 10, 32); err == nil {
				as = n
			}
		case "enable-overlay":
			overlay = value != "false"
		}
	}
	a.found(fmt.Sprintf("kube-router: AS %d, overlay %v", as, overlay))
	a.withBGP(BGP{ASNumber: uint32(as)})
	a.Why = "kube-router announces each node's pod range by BGP"
	a.note(
		"kube-router's mesh has only its own nodes: give them our nodes as peers (--peer-router-ips, --peer-router-asns), and ours theirs in the file of --bgp-config")
	if overlay {
		a.note(
			"kube-router encapsulates in IP-in-IP between segments, which Windows cannot: keep Windows nodes on the segment of the others, or set --enable-overlay=false")
	}
}
