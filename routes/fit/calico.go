package fit

import (
	"fmt"
	"net/netip"
	"strings"
)

// calicoAS is the number of every node's autonomous system where Calico's configuration gives none (Calico,
// BGPConfiguration).
const calicoAS = 64512

// pool is the spec of Calico's IPPool.
type pool struct {
	CIDR, IPIPMode, VXLANMode string
	Disabled                  bool
}

// bgpConfiguration is the spec of Calico's BGPConfiguration.
type bgpConfiguration struct {
	ASNumber              uint32
	NodeToNodeMeshEnabled *bool
	ListenPort            int
}

// bgpPeer is the spec of Calico's BGPPeer.
type bgpPeer struct {
	PeerIP, PeerSelector string
	Node, NodeSelector   string
	ASNumber             uint32
}

// felix is the spec of Calico's FelixConfiguration.
type felix struct {
	BPFEnabled bool
	VXLANVNI   int
	VXLANPort  int
}

// installation is the spec of the Installation of Calico's operator.
type installation struct {
	CalicoNetwork struct {
		BGP, LinuxDataplane string
	}
}

// pools returns Calico's IPv4 pools that are in use.
func (c Cluster) pools() (out []pool) {
	seen := map[string]bool{} // an object may be listed in both API groups
	for _, p := range custom[pool](c, "IPPool") {
		if firstFour(p.CIDR).IsValid() && !p.Disabled && !seen[p.CIDR] {
			seen[p.CIDR] = true
			out = append(out, p)
		}
	}
	return out
}

// calico advises about a cluster of Calico and returns the range of its pods.
func (a *Advice) calico(c Cluster, pods netip.Prefix) netip.Prefix {
	pools := c.pools()
	if len(pools) == 0 {
		a.found("Calico: no IPv4 pool that is in use")
		a.Why = "without a pool it is not known how Calico carries packets"
		if len(c.Unread) > 0 {
			a.change("give --kubeconfig of a user who may list ippools.crd.projectcalico.org")
		} else {
			a.change("make an IPPool for IPv4; Windows nodes need one")
		}
		return pods
	}
	pods = firstFour(pools[0].CIDR)
	if len(pools) > 1 {
		a.note("--cluster-cidr takes one range: give one that holds every pool and every node's pod range")
	}

	for _, p := range pools {
		a.found(fmt.Sprintf("Calico: pool %s, IP-in-IP %s, VXLAN %s", p.CIDR, or(p.IPIPMode, "Never"),
			or(p.VXLANMode, "Never")))
	}
	if c.bpf() {
		a.found("Calico: the eBPF data plane is on")
		a.Why =
			"Calico's eBPF data plane does not take part in a cluster with nodes that do not have it, and Windows nodes do not (Calico, eBPF data plane, limitations)"
		a.change(
			"FelixConfiguration default: bpfEnabled: false (operator: spec.calicoNetwork.linuxDataplane: Iptables), and kube-proxy on Linux nodes")
		return pods
	}
	switch {
	case encapsulates(pools, func(p pool) string { return p.IPIPMode }):
		a.Why = "a pool is carried by IP-in-IP, which Windows does not have"
		a.withoutEncapsulation("ipipMode")
	case encapsulates(pools, func(p pool) string { return p.VXLANMode }):
		a.calicoVXLAN(c)
	case c.calicoBGP():
		a.calicoPeers(c)
	default:
		a.Mode = topOfRack
		a.Why = "Calico neither encapsulates nor speaks BGP: routers outside of " +
			"the cluster have a route to each node's pod range"
	}
	a.blocks(pods)
	return pods
}

// encapsulates reports whether any pool has the mode; an empty one means Never.
func encapsulates(pools []pool, mode func(pool) string) bool {
	for _, p := range pools {
		if m := mode(p); m != "" && m != "Never" {
			return true
		}
	}
	return false
}

// withoutEncapsulation says how to come to a network of Calico that Windows nodes of ours can join.
func (a *Advice) withoutEncapsulation(field string) {
	a.change("on every IPPool: " + field + ": Never, and BGP on (Calico's default); then --mode=" + bgp +
		" fits. Nodes must reach each other without a router that does not know pods")
	a.change(
		"or leave the network to Calico on Windows too: its node agent for Windows and its plugin work with our kubelet and service proxy (pools with VXLAN, not CrossSubnet)")
}

// calicoVXLAN says why ours cannot join Calico's VXLAN.
func (a *Advice) calicoVXLAN(c Cluster) {
	vni, port := leastVNI, windowsPort // Felix's defaults are those of Windows
	for _, f := range custom[felix](c, "FelixConfiguration") {
		if f.VXLANVNI != 0 {
			vni = f.VXLANVNI
		}
		if f.VXLANPort != 0 {
			port = f.VXLANPort
		}
	}
	a.found(fmt.Sprintf("Calico's VXLAN: VNI %d, port %d", vni, port))
	a.Why =
		"Calico gives blocks of addresses to nodes and keeps the tunnels' addresses in its own objects; our mode vxlan speaks flannel's language (node pod ranges, annotations), which Calico's nodes do not read"
	a.withoutEncapsulation("vxlanMode")
	if vni < leastVNI || port != windowsPort {
		a.note(fmt.Sprintf("for Calico's own agent on Windows too the VNI must be at least %d and the port %d",
			leastVNI, windowsPort))
	}
}

// bpf reports whether Calico's Linux nodes use eBPF.
func (c Cluster) bpf() bool {
	for _, f := range custom[felix](c, "FelixConfiguration") {
		if f.BPFEnabled {
			return true
		}
	}
	for _, i := range custom[installation](c, "Installation") {
		if i.CalicoNetwork.LinuxDataplane == "BPF" {
			return true
		}
	}
	return false
}

// calicoBGP reports whether Calico speaks BGP, which it does where nothing says otherwise.
func (c Cluster) calicoBGP() bool {
	for _, i := range custom[installation](c, "Installation") {
		if i.CalicoNetwork.BGP == "Disabled" {
			return false
		}
	}
	backend := c.data(calicoConfig, "calico_backend")
	return backend == "" || backend == "bird"
}

// calicoPeers says whom a node of ours peers with.
func (a *Advice) calicoPeers(c Cluster) {
	as := uint32(calicoAS)
	mesh := true
	port := 0
	// Later BGPConfigurations win over earlier ones.
	for _, b := range custom[bgpConfiguration](c, "BGPConfiguration") {
		if b.ASNumber != 0 {
			as = b.ASNumber
		}
		if b.NodeToNodeMeshEnabled != nil {
			mesh = *b.NodeToNodeMeshEnabled
		}
		if b.ListenPort != 0 && b.ListenPort != 179 {
			port = b.ListenPort
		}
	}
	a.found(fmt.Sprintf("Calico: BGP, AS %d, node-to-node mesh %v", as, mesh))

	config := BGP{ASNumber: as}
	// Peers of one node, and those that are chosen otherwise than by address, are not for ours.
	for _, p := range custom[bgpPeer](c, "BGPPeer") {
		if p.PeerIP == "" || p.Node != "" {
			continue
		}
		a.found(fmt.Sprintf("Calico: BGPPeer %s, AS %d%s", p.PeerIP, p.ASNumber, someNodes(p.NodeSelector)))
		config.Peers = append(config.Peers, peerAt(p))
	}
	// The mesh has the nodes that Calico has annotated with their address; ours are not in it.
	if mesh {
		for _, n := range c.Nodes {
			if at, isCalico := n.Annotations["projectcalico.org/IPv4Address"]; isCalico {
				host, _, _ := strings.Cut(at, "/")
				config.Peers = append(config.Peers, Peer{PeerIP: host, Port: port, ASNumber: as})
			}
		}
		a.note(
			"Calico's mesh has only nodes of Calico: make one BGPPeer for each node of ours, with its address as peerIP and asNumber " + fmt.Sprint(as))
	}

	a.withBGP(config)
	a.Why = "Calico's pools are carried without encapsulation and announced by BGP"
	if len(config.Peers) == 0 {
		a.note(
			"the mesh is off and no BGPPeer names an address: find out which router the nodes peer with, and add it to the peers")
	}
}

// someNodes is empty if a peer is for all nodes.
func someNodes(selector string) string {
	if selector == "" || selector == "all()" {
		return ""
	}
	return ", for nodes " + selector
}

// peerAt splits the address and port of a peer; Calico writes ADDRESS, ADDRESS:PORT and [ADDRESS]:PORT.
func peerAt(p bgpPeer) Peer {
	if at, err := netip.ParseAddrPort(p.PeerIP); err == nil {
		return Peer{PeerIP: at.Addr().String(), Port: int(at.Port()), ASNumber: p.ASNumber}
	}
	return Peer{PeerIP: p.PeerIP, ASNumber: p.ASNumber}
}

// blocks notes that Calico gives addresses by blocks of its own.
func (a *Advice) blocks(pods netip.Prefix) {
	if a.Mode == "" {
		return
	}
	a.note(
		fmt.Sprintf(
			"Calico's own address management takes blocks anywhere in %s: reserve the pod ranges of our nodes (an IPReservation, or a pool that leaves them out), or have Calico use host-local with usePodCidr", orAsk(pods)))
}
