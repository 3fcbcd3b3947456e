package hnsd

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Flags and states of endpoints.
// The numbers are those of HNS' documents (hcsshim hcn EndpointFlags, EndpointState).
const (
	flagRemote = 1

	stateCreated  = 1
	stateAttached = 3 // AttachedSharing: what a pod's healthy endpoint shows
)

func isRemote(endpoint Doc) bool { return endpoint.num("Flags")&flagRemote != 0 }

// createEndpoint checks the document of a new endpoint and fills in what HNS fills in: name, addresses, MAC, DNS,
// namespace. parent is the network's id from the call's handle; it and the network in the document must not differ,
// and one of the two must be given.
func (h *Host) createEndpoint(n *State, o *Object, parent string) error {
	d := o.Doc
	given := canonicalID(d.str("HostComputeNetwork"))
	switch {
	case parent == "" && given == "":
		return ErrInvalidParameter
	case parent != "" && given != "" && given != ZeroID && parent != given:
		return ErrInvalidParameter
	case parent == "":
		parent = given
	}

	network, ok := n.Get(Network, parent)
	if !ok {
		return ErrNetworkNotFound
	}
	d.set("HostComputeNetwork", parent)
	if d.str("Name") == "" {
		d.set("Name", "Ethernet")
	}
	list, err := h.Profile.policies(d.docs("Policies"), endpointPolicies)
	if err != nil {
		return err
	}
	d.set("Policies", list)
	if err := h.checkPortMappings(n, d); err != nil {
		return err
	}
	if err := h.assignAddresses(n, network.network, d); err != nil {
		return err
	}
	if err := assignMAC(n, network.Doc, d); err != nil {
		return err
	}
	if !d.has("Dns") {
		d.set("Dns", network.Doc.doc("Dns"))
	}
	ns := canonicalID(d.str("HostComputeNamespace"))
	if ns == "" {
		ns = ZeroID
	}
	if _, ok := n.Get(Namespace, ns); ns != ZeroID && !ok {
		return ErrElementNotFound
	}
	d.set("HostComputeNamespace", ns)
	d.set("State", stateCreated)
	return nil
}

// assignAddresses checks the addresses that were asked for, or takes a free one, and completes prefix and routes.
func (h *Host) assignAddresses(n *State, network *networkDoc, d Doc) error {
	subnets := network.subnets
	configs := d.docs("IpConfigurations")
	// A local endpoint that asks for no address gets one of the first subnet; remote ones name
	// their own.
	if len(configs) == 0 && !isRemote(d) && len(subnets) > 0 {
		addr, ok := freeAddress(n, d.str("HostComputeNetwork"), subnets[0])
		if !ok {
			return ErrAddressInvalid
		}
		configs = []Doc{{"IpAddress": addr.String()}}
	}

	// The first address within a subnet decides which gateway the default route has.
	var gateway netip.Addr
	for _, c := range configs {
		addr, err := netip.ParseAddr(c.str("IpAddress"))
		if err != nil {
			return ErrAddressInvalid
		}
		if addr.Is6() && network.kind == "Overlay" {
			return ErrInvalidParameter // overlays carry no IPv6
		}
		// i is the subnet that has the address; -1 if none has.
		i := slices.IndexFunc(subnets, func(s subnet) bool { return s.prefix.Contains(addr) })
		if err := h.checkAddress(n, d, addr, subnets, i); err != nil {
			return err
		}
		bits := addr.BitLen()
		if i >= 0 {
			bits = subnets[i].prefix.Bits()
			c.set("IpSubnetId", subnets[i].id)
			if !gateway.IsValid() {
				gateway = subnets[i].gateway
			}
		}
		if c.num("PrefixLength") > uint64(addr.BitLen()) {
			return ErrInvalidParameter // the code is unverified, no. 50
		}
		if c.num("PrefixLength") == 0 {
			c.set("PrefixLength", bits)
		}
	}

	d.set("IpConfigurations", configs)
	// With this profile a route to 0.0.0.0 does not count, so that the gateway's is added.
	if h.Profile.HostDefaultRoute {
		d.set("Routes", slices.DeleteFunc(d.docs("Routes"), func(r Doc) bool { return r.str("NextHop") == "0.0.0.0" }))
	}
	if len(d.docs("Routes")) == 0 && !isRemote(d) && gateway.IsValid() {
		destination := "0.0.0.0/0"
		if gateway.Is6() {
			destination = "::/0"
		}
		d.set("Routes", []Doc{{"NextHop": gateway.String(), "DestinationPrefix": destination}})
	}
	return nil
}

// checkAddress refuses what HNS refuses: a local address outside the network, reserved, or taken by another local
// endpoint. A remote endpoint may have any address; a second remote one with the same is up to the profile.
// i is the index of the subnet with addr, or -1.
func (h *Host) checkAddress(n *State, d Doc, addr netip.Addr, subnets []subnet, i int) error {
	remote := isRemote(d)
	if !remote && len(subnets) > 0 {
		if i < 0 {
			return ErrAddressInvalid
		}
		s := subnets[i]
		// The first address of a subnet names the subnet; that of the gateway is free only with the
		// subnet's flag.
		if addr == s.prefix.Addr() || addr == s.gateway && !s.noGW {
			return ErrAddressInvalid
		}
	}
	if remote && !h.Profile.UniqueRemotes {
		return nil
	}
	if n.anyHaving(addressOf, addressKey(d.str("HostComputeNetwork"), remote, addr), "") {
		return ErrAddressInvalid
	}
	return nil
}

// freeAddress is the first address of the subnet that nobody has. The first two are left to gateways.
// It looks up each candidate in the index of addresses, and leaves out the last address, which is
// the broadcast of IPv4.
func freeAddress(n *State, network string, s subnet) (netip.Addr, bool) {
	taken := func(a netip.Addr) bool {
		return a == s.gateway || n.anyHaving(addressOf, addressKey(network, false, a), "") ||
			n.anyHaving(addressOf, addressKey(network, true, a), "")
	}
	addr := s.prefix.Addr().Next().Next().Next()
	for ; s.prefix.Contains(addr) && s.prefix.Contains(addr.Next()); addr = addr.Next() {
		if !taken(addr) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// assignMAC takes the address asked for, or the next free one of the network's pool.
func assignMAC(n *State, network, d Doc) error {
	if given := d.str("MacAddress"); given != "" {
		mac := canonicalMAC(given)
		if mac == "" {
			return ErrInvalidParameter
		}
		d.set("MacAddress", mac)
		return nil
	}
	for _, r := range network.doc("MacPool").docs("Ranges") {
		first := macNumber(r.str("StartMacAddress"))
		last := macNumber(r.str("EndMacAddress"))
		// The first address of a range is never given out.
		for v := first + 1; v <= last; v++ {
			if mac := macText(v); !n.anyHaving(macOf, mac, "") {
				d.set("MacAddress", mac)
				return nil
			}
		}
	}
	return ErrInvalidParameter.WithText("The network's pool of MAC addresses is used up.")
}

// macNumber is 0 for a text that is no hardware address; macText is its inverse, in HNS' spelling.
func macNumber(mac string) uint64 {
	raw, err := hex.DecodeString(strings.ReplaceAll(canonicalMAC(mac), "-", ""))
	if err != nil || len(raw) != 6 {
		return 0
	}
	return binary.BigEndian.Uint64(append([]byte{0, 0}, raw...))
}

func macText(v uint64) string {
	text := fmt.Sprintf("%012X", v)
	return strings.Join([]string{text[0:2], text[2:4], text[4:6], text[6:8], text[8:10], text[10:12]}, "-")
}

// checkPortMappings refuses a host port that another endpoint, a NodePort load balancer or, where the profile says so,
// a process of the host has.
func (h *Host) checkPortMappings(n *State, d Doc) error {
	for _, want := range mappingsOf(d) {
		if h.listenerTaken(nil, []portDoc{want}) {
			return ErrPortAlreadyExists
		}
		// Endpoints and load balancers are looked up by external port; same then compares protocol
		// and address.
		for _, other := range n.endpointsHaving(hostPortOf, want.key()) {
			if other.ID != d.str("ID") && slices.ContainsFunc(other.endpoint.ports, want.same) {
				return ErrPortAlreadyExists
			}
		}
		for id := range n.having(nodePortOf, want.key()) {
			if lb, ok := n.Get(LoadBalancer, id); ok && slices.ContainsFunc(lb.balancer.ports, want.same) {
				return ErrPortAlreadyExists
			}
		}
	}
	return nil
}

// protocol is a port's protocol number, also when it is given by name.
// A name that is neither tcp nor udp is read as a number; 0 if it is none.
func protocol(d Doc) uint64 {
	switch strings.ToLower(d.str("Protocol")) {
	case "tcp":
		return 6
	case "udp":
		return 17
	}
	return d.num("Protocol")
}

// modifyEndpoint changes the policies of an endpoint. A change of "Port" is accepted and has no effect.
func (h *Host) modifyEndpoint(n *State, o *Object, d Doc) error {
	m, err := parseModification(d, "Port", "Policy")
	if err != nil {
		return err
	}
	if m.resource == "Policy" {
		if err := h.Profile.changePolicies(o.Doc, m, endpointPolicies); err != nil {
			return err
		}
		if err := h.checkPortMappings(n, o.Doc); err != nil {
			return err
		}
	}
	// The copy gives every value the type of a decoded document, whatever the request left in it.
	o.Doc = o.Doc.copy()
	n.put(o)
	return nil
}

// EndpointAddresses returns the addresses of an endpoint as texts.
func EndpointAddresses(endpoint *Object) (texts []string) {
	for _, a := range endpoint.endpoint.addrs {
		texts = append(texts, a.String())
	}
	return texts
}
