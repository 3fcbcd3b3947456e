package hnsd

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// Desired is what the data plane has to carry for a State: L2Bridge, Overlay, NAT and Transparent networks with all
// that hangs on them, and every namespace. Networks of other types are state only.
func Desired(s *State) desired.State {
	var d desired.State
	networks := map[string]*Object{}
	for _, o := range s.List(Network) {
		if carried(o) {
			networks[o.ID] = o
			d.Networks = append(d.Networks, desiredNetwork(o))
		}
	}

	for _, o := range s.List(Namespace) {
		d.Namespaces = append(d.Namespaces, desired.Namespace{ID: o.ID, Host: isHostNamespace(o.Doc), Path: o.Path})
	}
	endpoints := map[string]bool{}
	routes := s.List(Route)
	for _, o := range s.List(Endpoint) {
		if network, ok := networks[o.Doc.str("HostComputeNetwork")]; ok {
			endpoints[o.ID] = true
			d.Endpoints = append(d.Endpoints, desiredEndpoint(o, network, routes))
		}
	}

	for _, o := range s.List(LoadBalancer) {
		if lb := desiredLoadBalancer(o); slices.ContainsFunc(lb.Backends,
			func(id string) bool { return endpoints[id] }) {
			lb.Backends = slices.DeleteFunc(lb.Backends, func(id string) bool { return !endpoints[id] })
			d.LoadBalancers = append(d.LoadBalancers, lb)
		}
	}
	return d
}

// DesiredChange returns what a change means for the data plane; next is the state after it. ok is false if more than
// endpoints and load balancers changed: then the caller must hand over all of Desired.
func DesiredChange(next *State, c Change) (out desired.Change, ok bool) {
	routes := next.List(Route)
	for _, o := range c.Put {
		switch o.Kind {
		case Endpoint:
			network, ok := next.Get(Network, o.Doc.str("HostComputeNetwork"))
			if !ok {
				return out, false
			}
			if carried(network) {
				out.Endpoints = append(out.Endpoints, desiredEndpoint(o, network, routes))
			}
		case LoadBalancer:
			if lb := desiredLoadBalancer(o); slices.ContainsFunc(lb.Backends,
				func(id string) bool { return carriedEndpoint(next, id) }) {
				out.LoadBalancers = append(out.LoadBalancers, lb)
			} else {
				out.GoneLoadBalancers = append(out.GoneLoadBalancers, lb.ID)
			}
		default:
			return out, false
		}
	}

	for _, r := range c.Drop {
		switch r.Kind {
		case Endpoint:
			out.GoneEndpoints = append(out.GoneEndpoints, r.ID)
		case LoadBalancer:
			out.GoneLoadBalancers = append(out.GoneLoadBalancers, r.ID)
		default:
			return out, false
		}
	}
	return out, true
}

// carried reports whether a network has packets.
func carried(network *Object) bool {
	t := network.Doc.str("Type")
	return t == "L2Bridge" || t == "Overlay" || t == "NAT" || t == "Transparent"
}

func carriedEndpoint(s *State, id string) bool {
	e, ok := s.Get(Endpoint, id)
	if !ok {
		return false
	}
	network, ok := s.Get(Network, e.Doc.str("HostComputeNetwork"))
	return ok && carried(network)
}

// desiredNetwork translates a network's document into what the data plane carries. The document was checked when it
// was made, so what cannot be parsed here is left out. A subnet without a route has its first address as the gateway,
// as the bridge must have one.
func desiredNetwork(o *Object) desired.Network {
	n := desired.Network{ID: o.ID, Type: o.Doc.str("Type")}
	for _, s := range subnetsOf(o.Doc) {
		gateway := s.gateway
		if !gateway.IsValid() {
			gateway = s.prefix.Addr().Next()
		}
		n.Subnets = append(n.Subnets, desired.Subnet{Prefix: s.prefix, Gateway: gateway, VSID: uint32(s.vsid)})
	}

	for _, p := range o.Doc.docs("Policies") {
		s := p.doc("Settings")
		switch p.str("Type") {
		case "VSwitchExtension":
			n.Extension = s.flag("Enable")
		case "ProviderAddress":
			n.Provider, _ = netip.ParseAddr(s.str("ProviderAddress"))
		case "DrMacAddress":
			n.RouterMAC = linuxMAC(s.str("Address"))
		case "VxlanPort":
			n.VxlanPort = uint16(s.num("Port"))
		case "HostRoute":
			n.HostRoute = true
		case "RemoteSubnetRoute":
			provider, _ := netip.ParseAddr(s.str("ProviderAddress"))
			for _, prefix := range prefixes([]string{s.str("DestinationPrefix")}) {
				n.RemoteSubnets = append(n.RemoteSubnets,
					desired.RemoteSubnet{Prefix: prefix, VSID: uint32(s.num("IsolationId")),
						Provider: provider, MAC: linuxMAC(s.str("DistributedRouterMacAddress"))})
			}
		}
	}
	return n
}

// linuxMAC spells a hardware address as Linux does. It returns "" if mac is not valid.
func linuxMAC(mac string) string {
	return strings.ToLower(strings.ReplaceAll(canonicalMAC(mac), "-", ":"))
}

// desiredEndpoint translates an endpoint's document. routes are the SDN routes of the host: those that name the
// endpoint count as policies of it. Of several routes of a family the first one's next hop is the gateway.
func desiredEndpoint(o, network *Object, routes []*Object) desired.Endpoint {
	d := o.Doc
	e := desired.Endpoint{
		ID: o.ID, Name: d.str("Name"), Network: network.ID, Remote: isRemote(d),
		MAC: linuxMAC(d.str("MacAddress")),
		DNS: d.doc("Dns").strs("ServerList"),
	}

	if ns := d.str("HostComputeNamespace"); ns != ZeroID {
		e.Namespace = ns
	}
	for _, c := range d.docs("IpConfigurations") {
		if addr, err := netip.ParseAddr(c.str("IpAddress")); err == nil {
			e.Addrs = append(e.Addrs, netip.PrefixFrom(addr, int(c.num("PrefixLength"))))
		}
	}

	for _, r := range d.docs("Routes") {
		switch hop, _ := netip.ParseAddr(r.str("NextHop")); {
		case hop.Is4() && !e.Gateway.IsValid():
			e.Gateway = hop
		case hop.Is6() && !e.Gateway6.IsValid():
			e.Gateway6 = hop
		}
	}

	for _, p := range d.docs("Policies") {
		addPolicy(&e, p.str("Type"), p.doc("Settings"))
	}
	for _, r := range routes {
		if slices.Contains(r.Doc.strs("HostComputeEndpoints"), o.ID) {
			for _, s := range r.Doc.docs("Setting") {
				addPolicy(&e, "SDNRoute", s)
			}
		}
	}
	return e
}

// natLocalRouted is the flag of a port mapping that makes the host route its address to the switch (hcsshim
// hcn.NatFlagsLocalRoutedVip).
const natLocalRouted = 1

// addPolicy adds one policy to e. Policies that have no effect on packets here are ignored.
func addPolicy(e *desired.Endpoint, kind string, s Doc) {
	switch kind {
	case "OutBoundNAT":
		vip, _ := netip.ParseAddr(s.str("VirtualIP"))
		e.OutboundNAT = append(e.OutboundNAT, desired.OutboundNAT{VirtualIP: vip,
			Exceptions: prefixes(s.strs("Exceptions")), Destinations: prefixes(s.strs("Destinations"))})

	case "SDNRoute":
		hop, _ := netip.ParseAddr(s.str("NextHop"))
		for _, p := range prefixes([]string{s.str("DestinationPrefix")}) {
			e.SDNRoutes = append(e.SDNRoutes,
				desired.SDNRoute{Destination: p, NextHop: hop, NeedEncap: s.flag("NeedEncap")})
		}

	case "PortMapping":
		vip, _ := netip.ParseAddr(s.str("VIP"))
		e.PortMappings = append(e.PortMappings, desired.PortMapping{Protocol: uint8(protocol(s)), VIP: vip,
			ExternalPort: uint16(s.num("ExternalPort")), InternalPort: uint16(s.num("InternalPort")),
			LocalRouted: s.num("Flags")&natLocalRouted != 0})

	case "ACL":
		e.ACLs = append(e.ACLs, desired.ACL{
			In:        strings.EqualFold(enum(s, "Direction", "", "In", "Out"), "In"),
			Allow:     !strings.EqualFold(s.str("Action"), "Block"),
			Priority:  uint16(s.num("Priority")),
			Protocols: protocols(s.strs("Protocols")),
			Local:     prefixes(s.strs("LocalAddresses")), Remote: prefixes(s.strs("RemoteAddresses")),
			LocalPorts: ports(s.strs("LocalPorts")), RemotePorts: ports(s.strs("RemotePorts")),
			HostLayerDriver: strings.EqualFold(s.str("RuleType"), "Host"),
		})

	case "ProviderAddress":
		e.Provider, _ = netip.ParseAddr(s.str("ProviderAddress"))
	case "QOS":
		e.MaxEgress = s.num("MaximumOutgoingBandwidthInBytes")
	case "EncapOverhead":
		if n := int(s.num("Overhead")); n > 0 && n < 500 {
			e.MTU = 1500 - n
		}
	}
}

// prefixes reads addresses and prefixes, leaving out what is neither.
func prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			out = append(out, p.Masked())
		} else if a, err := netip.ParseAddr(t); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

func protocols(texts []string) []uint8 {
	var out []uint8
	for _, t := range texts {
		if n, err := strconv.ParseUint(t, 10, 8); err == nil {
			out = append(out, uint8(n))
		}
	}
	return out
}

// ports reads "80" and "8000-8080".
func ports(texts []string) []desired.PortRange {
	var out []desired.PortRange
	for _, t := range texts {
		first, last, ranged := strings.Cut(t, "-")
		if !ranged {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err1 == nil && err2 == nil && a <= b {
			out = append(out, desired.PortRange{First: uint16(a), Last: uint16(b)})
		}
	}
	return out
}

// desiredLoadBalancer translates a load balancer's document. The bits of the flags are those of hcsshim's hcn package
// (LoadBalancerFlags and LoadBalancerPortMappingFlags).
func desiredLoadBalancer(o *Object) desired.LoadBalancer {
	d := o.Doc
	flags := d.num("Flags")
	lb := desired.LoadBalancer{ID: o.ID, Backends: d.strs("HostComputeEndpoints"), DSR: flags&1 != 0,
		IPv6: flags&2 != 0}
	lb.SourceVIP, _ = netip.ParseAddr(d.str("SourceVIP"))
	for _, v := range d.strs("FrontendVIPs") {
		if a, err := netip.ParseAddr(v); err == nil {
			lb.VIPs = append(lb.VIPs, a)
		}
	}
	for _, m := range d.docs("PortMappings") {
		f := m.num("Flags")
		lb.Ports = append(lb.Ports, desired.LBPort{
			Protocol: uint8(protocol(m)), ExternalPort: uint16(m.num("ExternalPort")),
			InternalPort: uint16(m.num("InternalPort")),
			Distribution: uint8(m.num("DistributionType")),
			ILB:          f&1 != 0, LocalRoutedVIP: f&2 != 0, PreserveDIP: f&8 != 0, VIPExternalIP: f&16 != 0,
		})
	}
	return lb
}
