package hnsd

import (
	"net/netip"
	"strconv"

	"porthole.dev/porthole/emulator/desired"
)

// What the rules know of a document. It is read once, when the object is put into a State, and the rules and the plan
// for the data plane go by it. Fields that are not known are in the document alone, and are given back with it.
type typed struct {
	network   *networkDoc
	endpoint  *endpointDoc
	namespace *namespaceDoc
	balancer  *balancerDoc
	route     *routeDoc
}

// read reads the document of an object: what its kind has is not nil.
func (o *Object) read() {
	o.typed = typed{}
	switch o.Kind {
	case Network:
		o.network = readNetwork(o.ID, o.Doc)
	case Endpoint:
		o.endpoint = readEndpoint(o.ID, o.Doc)
	case Namespace:
		o.namespace = readNamespace(o.Doc)
	case LoadBalancer:
		o.balancer = readBalancer(o.ID, o.Doc)
	case Route:
		o.route = readRoute(o.Doc)
	}
}

// networkDoc is the document of a network.
type networkDoc struct {
	name, kind string // kind is its type
	subnets    []subnet
	cards      []string        // that it names
	transient  bool            // a reboot removes it (hcsshim hcn.EnableNonPersistent)
	plane      desired.Network // what the data plane carries, if it carries networks of this type
}

// carried reports whether the network has packets. Networks of other types are state only.
func (n *networkDoc) carried() bool {
	return n.kind == "L2Bridge" || n.kind == "Overlay" || n.kind == "NAT" || n.kind == "Transparent"
}

// readNetwork reads the document of a network. It was checked when it was made, so what cannot be parsed here is left
// out. A subnet without a route has its first address as the gateway, as the bridge must have one.
func readNetwork(id string, d Doc) *networkDoc {
	out := &networkDoc{name: d.str("Name"), kind: d.str("Type"), subnets: subnetsOf(d),
		transient: d.num("Flags")&8 != 0}
	n := desired.Network{ID: id, Type: out.kind}
	for _, s := range out.subnets {
		gateway := s.gateway
		if !gateway.IsValid() {
			gateway = s.prefix.Addr().Next()
		}
		n.Subnets = append(n.Subnets, desired.Subnet{Prefix: s.prefix, Gateway: gateway, VSID: uint32(s.vsid)})
	}

	for _, p := range d.docs("Policies") {
		s := p.doc("Settings")
		// A policy without meaning for packets is in the document only.
		switch p.str("Type") {
		case "NetAdapterName":
			out.cards = append(out.cards, s.str("NetworkAdapterName"))
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
	out.plane = n
	return out
}

// endpointDoc is the document of an endpoint.
type endpointDoc struct {
	name, network, namespace string // ids; the namespace of one that is not attached is ZeroID
	mac                      string // AA-BB-CC-DD-EE-FF
	remote                   bool
	addrs                    []netip.Addr
	ports                    []portDoc        // its port mappings
	plane                    desired.Endpoint // without what SDN routes add
}

// attached reports whether the endpoint is in a namespace.
func (e *endpointDoc) attached() bool { return e.namespace != ZeroID }

// readEndpoint reads the document of an endpoint. Of several routes of a family the first one's next hop is the
// gateway.
func readEndpoint(id string, d Doc) *endpointDoc {
	out := &endpointDoc{name: d.str("Name"), network: d.str("HostComputeNetwork"),
		namespace: d.str("HostComputeNamespace"), mac: d.str("MacAddress"), remote: isRemote(d), ports: mappingsOf(d)}
	e := desired.Endpoint{ID: id, Name: out.name, Network: out.network, Remote: out.remote, MAC: linuxMAC(out.mac),
		DNS: d.doc("Dns").strs("ServerList")}
	if out.attached() {
		e.Namespace = out.namespace
	}
	// An address that cannot be parsed is left out.
	for _, c := range d.docs("IpConfigurations") {
		if addr, err := netip.ParseAddr(c.str("IpAddress")); err == nil {
			out.addrs = append(out.addrs, addr)
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
	out.plane = e
	return out
}

// balancerDoc is the document of a load balancer.
type balancerDoc struct {
	backends  []string // ids of endpoints
	vips      []string // its frontends' addresses; none: those of the node
	ports     []portDoc
	sourceVIP string
	ipv6      bool
	block     bool // it holds a block of ports: it is without direct server return
	plane     desired.LoadBalancer
}

// readBalancer reads the document of a load balancer. The bits of the flags are those of hcsshim's hcn package
// (LoadBalancerFlags and LoadBalancerPortMappingFlags).
func readBalancer(id string, d Doc) *balancerDoc {
	// Bit 0 of a load balancer is direct server return, bit 1 IPv6.
	flags := d.num("Flags")
	out := &balancerDoc{backends: d.strs("HostComputeEndpoints"), vips: d.strs("FrontendVIPs"),
		sourceVIP: d.str("SourceVIP"), ipv6: flags&2 != 0, block: flags&1 == 0}
	lb := desired.LoadBalancer{ID: id, Backends: out.backends, DSR: !out.block, IPv6: out.ipv6}
	lb.SourceVIP, _ = netip.ParseAddr(out.sourceVIP)
	for _, v := range out.vips {
		if a, err := netip.ParseAddr(v); err == nil {
			lb.VIPs = append(lb.VIPs, a)
		}
	}
	for _, m := range d.docs("PortMappings") {
		p := readPort(m)
		out.ports = append(out.ports, p)
		lb.Ports = append(lb.Ports, desired.LBPort{
			Protocol: uint8(p.protocol), ExternalPort: uint16(p.external),
			InternalPort: uint16(m.num("InternalPort")),
			Distribution: uint8(m.num("DistributionType")),
			ILB:          p.flags&1 != 0, LocalRoutedVIP: p.flags&2 != 0, PreserveDIP: p.flags&8 != 0,
			VIPExternalIP: p.flags&16 != 0,
		})
	}
	out.plane = lb
	return out
}

// portDoc is a port mapping of an endpoint or a load balancer.
type portDoc struct {
	vip                       string // "": all addresses
	protocol, external, flags uint64
}

// readPort reads both kinds of mappings, which use the same names.
func readPort(d Doc) portDoc {
	return portDoc{vip: d.str("VIP"), protocol: protocol(d), external: d.num("ExternalPort"), flags: d.num("Flags")}
}

// same reports whether two mappings are of one port of the host.
func (p portDoc) same(q portDoc) bool {
	return p.external != 0 && p.external == q.external && p.protocol == q.protocol &&
		(p.vip == "" || q.vip == "" || p.vip == q.vip)
}

// key is the external port of a mapping.
func (p portDoc) key() string { return strconv.FormatUint(p.external, 10) }

// mappingsOf are the port mappings in the document of an endpoint.
func mappingsOf(endpoint Doc) (list []portDoc) {
	for _, p := range endpoint.docs("Policies") {
		if p.str("Type") == "PortMapping" {
			list = append(list, readPort(p.doc("Settings")))
		}
	}
	return list
}

// namespaceDoc is the document of a namespace.
type namespaceDoc struct {
	kind      string   // its type
	endpoints []string // ids, in the order in which they came
}

// host reports whether the namespace is the host's own.
func (n *namespaceDoc) host() bool { return n.kind == "Host" || n.kind == "HostDefault" }

// readNamespace leaves out containers, which have no effect on packets.
func readNamespace(d Doc) *namespaceDoc {
	n := &namespaceDoc{kind: d.str("Type")}
	for _, r := range d.docs("Resources") {
		if r.str("Type") == "Endpoint" {
			n.endpoints = append(n.endpoints, r.doc("Data").str("ID"))
		}
	}
	return n
}

// routeDoc is the document of an SDN route. Each of its routes counts as a policy of its endpoints.
type routeDoc struct {
	endpoints []string // ids
	routes    []desired.SDNRoute
}

// A client writes the list as Setting or Routes; checkRoute has given the document both.
func readRoute(d Doc) *routeDoc {
	r := &routeDoc{endpoints: d.strs("HostComputeEndpoints")}
	for _, s := range d.docs("Setting") {
		r.routes = append(r.routes, readSDNRoute(s)...)
	}
	return r
}

func readSDNRoute(s Doc) (list []desired.SDNRoute) {
	hop, _ := netip.ParseAddr(s.str("NextHop"))
	for _, p := range prefixes([]string{s.str("DestinationPrefix")}) {
		list = append(list, desired.SDNRoute{Destination: p, NextHop: hop, NeedEncap: s.flag("NeedEncap")})
	}
	return list
}
