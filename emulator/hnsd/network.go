package hnsd

import (
	"net/netip"
	"slices"
	"strings"
)

// networkTypes are in the order of their numbers in the API.
var networkTypes = []string{"NAT", "ICS", "Transparent", "L2Bridge", "L2Tunnel", "Overlay", "Private", "Internal",
	"Mirrored", "Infiniband", "ConstrainedICS"}

// createNetwork checks the document of a new network and fills in what HNS fills in: type, policies, MAC range,
// subnets. On a host of several network cards it binds the network to the last one unless the document names one,
// because HNS does not promise to take the one that has the node's address.
func (h *Host) createNetwork(n *State, o *Object) error {
	d := o.Doc
	if !d.has("Type") {
		d.set("Type", "NAT")
	}
	kind := enum(d, "Type", networkTypes...)
	if kind == "" {
		return ErrInvalidNetworkType
	}
	d.set("Type", kind)
	list, err := h.Profile.policies(d.docs("Policies"), networkPolicies)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p := asDoc(p); p.str("Type") == "NetAdapterName" &&
			!h.knowsAdapter(p.doc("Settings").str("NetworkAdapterName")) {
			return ErrAdapterNotFound
		}
	}

	if binding := func(p any) bool { return asDoc(p).str("Type") == "NetAdapterName" }; len(h.Uplinks) > 1 &&
		bindsAdapter(kind) && !slices.ContainsFunc(list, binding) {
		list = append(list, Doc{"Type": "NetAdapterName",
			"Settings": Doc{"NetworkAdapterName": h.Uplinks[len(h.Uplinks)-1]}})
	}
	// An overlay network always has its provider address and the MAC of its router, from the caller
	// or from here.
	if kind == "Overlay" {
		for name, settings := range map[string]Doc{
			"ProviderAddress": {"ProviderAddress": h.NodeAddr},
			"DrMacAddress":    {"Address": routerMAC(o.ID)},
		} {
			if !slices.ContainsFunc(list, func(p any) bool { return asDoc(p).str("Type") == name }) {
				list = append(list, Doc{"Type": name, "Settings": settings})
			}
		}
	}

	d.set("Policies", list)
	// The range depends on the network's id, so that two networks of a host seldom share one.
	if len(d.doc("MacPool").docs("Ranges")) == 0 {
		id := strings.ToUpper(o.ID[:2])
		d.set("MacPool",
			Doc{"Ranges": []Doc{{"StartMacAddress": "00-15-5D-" + id + "-00-00",
				"EndMacAddress": "00-15-5D-" + id + "-FF-FF"}}})
	}
	if err := h.createSubnets(d); err != nil {
		return err
	}
	return h.Profile.checkOverlaps(n, d)
}

// checkOverlaps refuses a network whose subnets overlap with each other or with those of another network, if the
// profile has UniqueSubnets.
func (p Profile) checkOverlaps(n *State, d Doc) error {
	if !p.UniqueSubnets {
		return nil
	}
	// Of v4 and v6 subnets no two overlap, so that all are compared with all.
	var taken []netip.Prefix
	for _, other := range n.List(Network) {
		for _, s := range other.network.subnets {
			taken = append(taken, s.prefix)
		}
	}
	for _, s := range subnetsOf(d) {
		if slices.ContainsFunc(taken, s.prefix.Overlaps) {
			return ErrInvalidSubnet
		}
		taken = append(taken, s.prefix)
	}
	return nil
}

// bindsAdapter reports whether a network of that type is bound to one of the host's network cards.
func bindsAdapter(kind string) bool {
	return kind == "L2Bridge" || kind == "L2Tunnel" || kind == "Overlay" || kind == "Transparent"
}

// routerMAC is the host's own in the overlay: another one after a network was made again, which its peers must learn.
func routerMAC(network string) string {
	hex := strings.ToUpper(strings.ReplaceAll(network, "-", ""))
	return "00-15-5D-" + hex[0:2] + "-" + hex[2:4] + "-" + hex[4:6]
}

// knowsAdapter compares without regard to case; a host without a list of adapters knows every name.
func (h *Host) knowsAdapter(name string) bool {
	return name == "" || len(h.Adapters) == 0 ||
		slices.ContainsFunc(h.Adapters, func(a string) bool { return strings.EqualFold(a, name) })
}

// createSubnets checks every subnet of a new network and fills in the kind of the IPAM.
func (h *Host) createSubnets(d Doc) error {
	ipams := d.docs("Ipams")
	for _, ipam := range ipams {
		if !ipam.has("Type") {
			ipam.set("Type", "Static")
		}
		subnets := ipam.docs("Subnets")
		for _, subnet := range subnets {
			if err := h.checkSubnet(subnet, d.str("Type")); err != nil {
				return err
			}
		}
		ipam.set("Subnets", subnets)
	}
	d.set("Ipams", ipams)
	return nil
}

// checkSubnet checks one subnet and gives it an id if it has none. It refuses subnets of IPv6 in overlay networks.
func (h *Host) checkSubnet(subnet Doc, networkType string) error {
	prefix, err := netip.ParsePrefix(subnet.str("IpAddressPrefix"))
	if err != nil {
		return ErrInvalidSubnet
	}
	if networkType == "Overlay" && prefix.Addr().Is6() {
		return ErrInvalidPrefix
	}
	if canonicalID(subnet.str("ID")) == "" {
		subnet.set("ID", h.NewID())
	}
	list, err := h.Profile.policies(subnet.docs("Policies"), subnetPolicies)
	if err != nil {
		return err
	}
	subnet.set("Policies", list)
	for _, p := range subnet.docs("Policies") {
		if id := p.doc("Settings").num("IsolationId"); networkType == "Overlay" && p.str("Type") == "VSID" &&
			!isVirtualSubnet(id) {
			return ErrInvalidParameter.WithText("The parameter is incorrect: VSID %d.", id)
		}
	}
	return nil
}

// isVirtualSubnet reports whether Windows takes the number of a virtual subnet: its network virtualization has 4096 to
// 16777214, the least of which flannel's and Calico's documentation state too (flannel-io/flannel#1215). The answer to
// another one is unverified, no. 81.
func isVirtualSubnet(id uint64) bool { return id >= 4096 && id <= 1<<24-2 }

// withoutGateways replaces the gateways in the document of a network by 0.0.0.0.
func withoutGateways(network Doc) {
	ipams := network.docs("Ipams")
	for _, ipam := range ipams {
		subnets := ipam.docs("Subnets")
		for _, s := range subnets {
			routes := s.docs("Routes")
			for _, r := range routes {
				r.set("NextHop", "0.0.0.0")
			}
			s.set("Routes", routes)
		}
		ipam.set("Subnets", subnets)
	}
	network.set("Ipams", ipams)
}

// subnet is a network's subnet in numbers.
type subnet struct {
	id      string
	prefix  netip.Prefix
	gateway netip.Addr // the next hop of its default route
	vsid    uint64
	vlan    uint64
	noGW    bool // the gateway's address is not reserved
}

// subnetsOf returns the subnets of a network's document. The gateway is that of the default route, and not valid
// without one. Overlay networks have a virtual subnet, others a VLAN.
func subnetsOf(network Doc) []subnet {
	var out []subnet

	// What cannot be parsed is left out; createSubnets has refused it in documents of new networks.
	for _, ipam := range network.docs("Ipams") {
		for _, s := range ipam.docs("Subnets") {
			prefix, err := netip.ParsePrefix(s.str("IpAddressPrefix"))
			if err != nil {
				continue
			}
			sub := subnet{id: s.str("ID"), prefix: prefix.Masked(), noGW: s.num("Flags")&1 != 0}
			for _, r := range s.docs("Routes") {
				if dst := r.str("DestinationPrefix"); dst == "0.0.0.0/0" || dst == "::/0" {
					sub.gateway, _ = netip.ParseAddr(r.str("NextHop"))
				}
			}
			for _, p := range s.docs("Policies") {
				id := p.doc("Settings").num("IsolationId")
				if p.str("Type") == "VSID" {
					sub.vsid = id
				} else {
					sub.vlan = id
				}
			}
			out = append(out, sub)
		}
	}
	return out
}

// modifyNetwork changes policies, DNS or subnets of a network. A change of "Extension" or "IPSubnet" is accepted and
// has no effect.
func (h *Host) modifyNetwork(n *State, o *Object, d Doc) error {
	m, err := parseModification(d, "DNS", "Extension", "Policy", "Subnet", "IPSubnet")
	if err != nil {
		return err
	}
	switch m.resource {
	case "Policy":
		err = h.Profile.changePolicies(o.Doc, m, networkPolicies)
	case "DNS":
		o.Doc.set("Dns", m.settings)
	case "Subnet":
		err = h.changeSubnets(o.Doc, m)
	}
	if err != nil {
		return err
	}
	o.Doc = o.Doc.copy()
	n.put(o)
	return nil
}

// changeSubnets adds or removes subnets of the first IPAM, by their prefix. Removing one that is not there is success.
func (h *Host) changeSubnets(d Doc, m modification) error {
	ipams := d.docs("Ipams")
	if len(ipams) == 0 {
		ipams = []Doc{{"Type": "Static", "Subnets": []any{}}}
	}
	given := m.settings.docs("Subnets")
	have := ipams[0].docs("Subnets")
	for _, g := range given {
		same := func(s Doc) bool { return s.str("IpAddressPrefix") == g.str("IpAddressPrefix") }
		switch m.request {
		case "Add":
			if slices.ContainsFunc(have, same) {
				return ErrAlreadyExists
			}
			if err := h.checkSubnet(g, d.str("Type")); err != nil {
				return err
			}
			have = append(have, g)
		case "Remove":
			have = slices.DeleteFunc(have, same)
		}
	}

	ipams[0].set("Subnets", have)
	d.set("Ipams", ipams)
	return nil
}
