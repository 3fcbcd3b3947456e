package fit

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The names of our modes, as `porthole routes --mode` takes them.
const (
	hostGateway = "host-gateway"
	topOfRack   = "tor"
	vxlan       = "vxlan"
	bgp         = "bgp"
)

// Advise says which mode fits the cluster. known are the modes that this program has.
func Advise(c Cluster, known []string) Advice {
	a := Advice{Unread: c.Unread}
	pods := c.podRange()
	plugin, w := c.plugin()
	a.Plugin = plugin
	// A ConfigMap of flannel and pools of Calico count before DaemonSets.
	switch {
	case c.hasFlannel():
		a.Plugin, pods = "flannel", a.flannel(c, pods)
	case len(c.pools()) > 0 || plugin == "calico":
		a.Plugin, pods = "calico", a.calico(c, pods)
	case plugin != "":
		a.found(fmt.Sprintf("%s: DaemonSet %s/%s", plugin, w.Namespace, w.Name))
		a.other(c, plugin, w)
	default:
		a.unknownPlugin(c)
	}

	a.nodes(c, pods)
	a.kubeProxy(c)
	if a.Mode != "" {
		a.Flags = append([]string{"--mode=" + a.Mode, "--cluster-cidr=" + orAsk(pods),
			"--service-cidr=" + orAsk(c.serviceRange())}, a.Flags...)
		if !pods.IsValid() {
			a.note("the range of all pods is not known: it is --cluster-cidr of the controller manager")
		}
		if !c.serviceRange().IsValid() {
			a.note("the range of services is not known: it is --service-cluster-ip-range of the API server")
		}
		if !slices.Contains(known, a.Mode) {
			a.note(fmt.Sprintf("this program has no mode %s; it knows %s", a.Mode, strings.Join(known, ", ")))
		}
	}
	return a
}

// unknownPlugin advises about a cluster without a plugin that is known by name: its routes may come from a cloud, or
// there is no network yet.
func (a *Advice) unknownPlugin(c Cluster) {
	if len(c.Unread) > 0 {
		a.Why = "no network plugin was found, but not everything could be read: see below"
		a.change("give --kubeconfig of a user who may list DaemonSets, and get ConfigMaps of kube-system")
		return
	}

	ours := false
	for _, n := range c.Nodes {
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeNetworkUnavailable && cond.Reason == "RouteCreated" {
				a.found(fmt.Sprintf("node %s: NetworkUnavailable is %s, %s: a cloud provider makes the routes", n.Name,
					cond.Status, cond.Reason))
				a.Mode = topOfRack
				a.Why = "the cloud's router has a route to each node's pod range; nodes need none"
				return
			}
			if cond.Type == corev1.NodeNetworkUnavailable && cond.Reason == "RoutesReady" {
				a.found(fmt.Sprintf("node %s: porthole routes keeps its network", n.Name))
				ours = true
			}
		}
	}

	a.found("no DaemonSet of a network plugin that is known by name")
	if ours {
		a.note("porthole routes is at work already: give other nodes the --mode that it has there")
	}
	a.Mode = hostGateway
	a.Why = "nothing else carries packets between nodes; `porthole routes` does so on Linux nodes and on Windows nodes"
	a.note("all nodes must be on one segment; with a router between them take --mode=" + topOfRack + " or --mode=" +
		bgp)
}

// nodes adds what nodes lack for any mode.
func (a *Advice) nodes(c Cluster, pods netip.Prefix) {
	systems := map[string]int{}
	for _, n := range c.Nodes {
		systems[n.Labels[corev1.LabelOSStable]]++
		r, err := netip.ParsePrefix(n.Spec.PodCIDR)
		switch {
		case n.Spec.PodCIDR == "" && a.Mode != "":
			a.note(
				fmt.Sprintf(
					"node %s has no pod range (spec.podCIDR): start the controller manager with --allocate-node-cidrs and --cluster-cidr", n.Name))
		case err == nil && a.Mode != "" && pods.IsValid() && r.Addr().Is4() == pods.Addr().Is4() &&
			!(pods.Contains(r.Addr()) && r.Bits() >= pods.Bits()):
			a.note(
				fmt.Sprintf(
					"pod range %s of node %s is outside of %s, the range of all pods: nobody carries packets to it", r,
					n.Name, pods))
		}
	}
	a.found(fmt.Sprintf("%d Linux and %d Windows nodes", systems["linux"], systems["windows"]))
}

// kubeProxy adds what the Linux nodes' service proxy means for Windows nodes.
func (a *Advice) kubeProxy(c Cluster) {
	i := slices.IndexFunc(c.Workloads, func(w Workload) bool { return w.Name == "kube-proxy" })
	if i < 0 && len(c.Workloads) == 0 && len(c.Unread) > 0 {
		return
	}
	if i < 0 {
		a.found("no DaemonSet kube-proxy")
		a.note("Linux nodes have no kube-proxy of their own; Windows nodes need `porthole kube-proxy` all the same")
		return
	}
	w := c.Workloads[i]
	var config struct{ Mode, ClusterCIDR string }
	_ = yaml.Unmarshal([]byte(c.data(kubeProxyConfig, "config.conf")), &config) // what does not parse is left out
	a.found(fmt.Sprintf("kube-proxy: DaemonSet %s/%s, mode %s", w.Namespace, w.Name,
		or(config.Mode, "of the system's default")))
	a.onlyLinux(w)
}

// onlyLinux notes that a DaemonSet would also start on Windows nodes.
func (a *Advice) onlyLinux(w Workload) {
	if w.NodeSelector[corev1.LabelOSStable] == "" && !w.Affinity {
		a.note(
			fmt.Sprintf(
				"DaemonSet %s/%s does not choose the system of its nodes: give it the node selector %s=linux, else its pods fail on Windows nodes",
				w.Namespace, w.Name, corev1.LabelOSStable))
	}
}

// podRange is the range of all pods as the control plane has it; zero if that is not known.
func (c Cluster) podRange() netip.Prefix {
	if p := firstFour(c.kubeadm().Networking.PodSubnet); p.IsValid() {
		return p
	}
	var config struct{ ClusterCIDR string }
	_ = yaml.Unmarshal([]byte(c.data(kubeProxyConfig, "config.conf")), &config) // what does not parse is left out
	return firstFour(config.ClusterCIDR)
}

// serviceRange is the range of all services; zero if that is not known.
func (c Cluster) serviceRange() netip.Prefix {
	for _, p := range c.Services {
		if p.Addr().Is4() {
			return p
		}
	}
	return firstFour(c.kubeadm().Networking.ServiceSubnet)
}

// kubeadm is the part of kubeadm's ClusterConfiguration that matters here.
func (c Cluster) kubeadm() (config struct {
	Networking struct{ PodSubnet, ServiceSubnet string }
}) {
	// what does not parse is left out
	_ = yaml.Unmarshal([]byte(c.data(kubeadmConfig, "ClusterConfiguration")), &config)
	return config
}

// configMap returns a ConfigMap by NAMESPACE/NAME, and nil if it was not there.
func (c Cluster) configMap(name string) *corev1.ConfigMap {
	for i, m := range c.ConfigMaps {
		if m.Namespace+"/"+m.Name == name {
			return &c.ConfigMaps[i]
		}
	}
	return nil
}

// data is "" if the ConfigMap or the key is not there.
func (c Cluster) data(configMap, key string) string {
	if m := c.configMap(configMap); m != nil {
		return strings.TrimSpace(m.Data[key])
	}
	return ""
}

// custom decodes the specs of all objects of a kind.
func custom[Spec any](c Cluster, kind string) (out []Spec) {
	for _, o := range c.Custom {
		var doc struct{ Spec Spec }
		if o.Kind == kind && json.Unmarshal(o.JSON, &doc) == nil {
			out = append(out, doc.Spec)
		}
	}
	return out
}

// firstFour returns the first IPv4 range of a list with commas; zero if there is none.
func firstFour(list string) netip.Prefix {
	for text := range strings.SplitSeq(list, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && p.Addr().Is4() {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}

// orAsk writes a range, or what the user has to put in its place.
func orAsk(p netip.Prefix) string {
	if p.IsValid() {
		return p.String()
	}
	return "RANGE"
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
