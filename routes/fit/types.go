package fit

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Cluster is what was read of a cluster.
type Cluster struct {
	Nodes      []corev1.Node
	ConfigMaps []corev1.ConfigMap // those that ConfigMaps names, as far as they exist
	Workloads  []Workload         // all DaemonSets
	Custom     []Custom           // the objects that Kinds names, as far as their kinds exist
	Services   []netip.Prefix     // from ServiceCIDR objects; empty on servers before 1.33
	// Unread says what could not be read, and why. What is unread is not taken for absent.
	Unread []Unread
}

// Workload is a DaemonSet.
type Workload struct {
	Namespace, Name string
	Args            []string // commands and arguments of its containers
	NodeSelector    map[string]string
	Affinity        bool // it has a node affinity, which may name the operating system instead of NodeSelector
}

// Custom is an object of a kind that a network plugin defines, as JSON.
type Custom struct {
	Kind, Name string
	JSON       []byte
}

// Unread is something that the API server did not give.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Kind is a kind of object that a network plugin defines.
type Kind struct{ Group, Version, Resource, Kind string }

// Kinds are the custom objects that Advise understands. Calico keeps its objects under crd.projectcalico.org; from
// version 3.30 on it can keep them under projectcalico.org instead, with the same fields.
var Kinds = []Kind{
	{"crd.projectcalico.org", "v1", "ippools", "IPPool"},
	{"crd.projectcalico.org", "v1", "bgpconfigurations", "BGPConfiguration"},
	{"crd.projectcalico.org", "v1", "bgppeers", "BGPPeer"},
	{"crd.projectcalico.org", "v1", "felixconfigurations", "FelixConfiguration"},
	{"projectcalico.org", "v3", "ippools", "IPPool"},
	{"projectcalico.org", "v3", "bgpconfigurations", "BGPConfiguration"},
	{"projectcalico.org", "v3", "bgppeers", "BGPPeer"},
	{"projectcalico.org", "v3", "felixconfigurations", "FelixConfiguration"},
	{"operator.tigera.io", "v1", "installations", "Installation"},
}

// ConfigMaps are the names, as NAMESPACE/NAME, of the ConfigMaps that Advise understands.
var ConfigMaps = []string{
	flannelConfig, flannelConfigOld, canalConfig, calicoConfig, ciliumConfig, kubeadmConfig, kubeProxyConfig,
}

const (
	flannelConfig    = "kube-flannel/kube-flannel-cfg" // flannel's manifest since 0.20
	flannelConfigOld = "kube-system/kube-flannel-cfg"
	canalConfig      = "kube-system/canal-config"  // Calico's policies over flannel
	calicoConfig     = "kube-system/calico-config" // of an installation by manifest, not by the operator
	ciliumConfig     = "kube-system/cilium-config"
	kubeadmConfig    = "kube-system/kubeadm-config"
	kubeProxyConfig  = "kube-system/kube-proxy"
)

// Advice is what Advise found out.
type Advice struct {
	// Found has a line for each fact that the advice rests on.
	Found []string `json:"found"`
	// Plugin is the network plugin that the cluster has, such as calico; empty: none is known by name.
	Plugin string `json:"-"`
	// Mode is the mode that fits; empty: none does.
	Mode string `json:"mode,omitempty"`
	// Flags are those of `porthole routes` for the mode, without --kubeconfig.
	Flags []string `json:"flags,omitempty"`
	// BGP is what belongs in the file that --bgp-config names; only with the mode bgp.
	BGP *BGP `json:"bgp,omitempty"`
	// Why says why the mode fits, or why none does.
	Why string `json:"why"`
	// Change says what to change so that a mode fits; only if none does.
	Change []string `json:"change,omitempty"`
	// Notes are what to know or to do beside.
	Notes []string `json:"notes,omitempty"`
	// Unread is what could not be read; another advice may come of it.
	Unread []Unread `json:"unread,omitempty"`
}

// BGP is a configuration of the mode bgp, with the fields of its file.
type BGP struct {
	ASNumber uint32 `json:"asNumber"`
	Peers    []Peer `json:"peers,omitempty"`
}

// Peer is a BGP peer of every node.
type Peer struct {
	PeerIP   string `json:"peerIP"`
	Port     int    `json:"port,omitempty"` // 0: 179
	ASNumber uint32 `json:"asNumber"`
}

// withBGP chooses the mode bgp.
func (a *Advice) withBGP(c BGP) {
	a.Mode = bgp
	a.BGP = &c
	a.Flags = []string{"--bgp-config=FILE"}
}

func (a *Advice) found(line string)  { a.Found = append(a.Found, line) }
func (a *Advice) note(line string)   { a.Notes = append(a.Notes, line) }
func (a *Advice) change(line string) { a.Change = append(a.Change, line) }
