package hnsd

import (
	"net/netip"
	"strings"
)

// policyNames pairs the v1 and the v2 word for one policy, and its field names where they differ.
var policyNames = []struct {
	v1, v2 string
	fields map[string]string // v1 name → v2 name
}{
	{"NAT", "PortMapping", nil},
	{"OutBoundNAT", "OutBoundNAT", map[string]string{"VIP": "VirtualIP", "ExceptionList": "Exceptions"}},
	{"ROUTE", "SDNRoute", nil},
	{"PA", "ProviderAddress", map[string]string{"PA": "ProviderAddress"}},
	{"PROXY", "L4Proxy", map[string]string{"ExceptionList": "Exceptions"}},
	{"VLAN", "VLAN", map[string]string{"VLAN": "IsolationId"}},
	{"VSID", "VSID", map[string]string{"VSID": "IsolationId"}},
}

// policyFromV1 turns {"Type":T, fields…} into {"Type":T2,"Settings":{…}}.
// A policy with Settings has v2's form already.
func policyFromV1(p Doc) Doc {
	if p.has("Settings") {
		return p
	}
	settings := Doc{}
	kind := p.str("Type")
	var fields map[string]string
	for _, n := range policyNames {
		if strings.EqualFold(n.v1, kind) {
			kind, fields = n.v2, n.fields
			break
		}
	}

	// Names are compared exactly: a field in another case stays as it is.
	for name, v := range p {
		if strings.EqualFold(name, "Type") {
			continue
		}
		if v2, ok := fields[name]; ok {
			name = v2
		}
		settings[name] = v
	}

	if settings.has("Protocol") && kind == "PortMapping" {
		settings.set("Protocol", protocol(settings))
	}
	return Doc{"Type": kind, "Settings": settings}
}

// policyToV1 is the inverse of policyFromV1. A policy without a name in the table keeps its own.
func policyToV1(p Doc) Doc {
	out := Doc{"Type": p.str("Type")}
	var fields map[string]string
	for _, n := range policyNames {
		if n.v2 == p.str("Type") {
			out["Type"], fields = n.v1, n.fields
		}
	}
	for name, v := range p.doc("Settings") {
		for v1, v2 := range fields {
			if v2 == name {
				name = v1
			}
		}
		out[name] = v
	}
	return out
}

// The results of policiesFromV1 and policiesToV1 are never nil, so that they are [] in JSON.
func policiesFromV1(list []Doc) []Doc {
	out := []Doc{}
	for _, p := range list {
		out = append(out, policyFromV1(p))
	}
	return out
}

func policiesToV1(list []Doc) []Doc {
	out := []Doc{}
	for _, p := range list {
		out = append(out, policyToV1(p))
	}
	return out
}

// fromV1 makes the object of a v1 document. Fields that have no v2 form stay aside and are given back to v1 readers.
func fromV1(k Kind, d Doc) *Object {
	o := &Object{Kind: k, V1: d.copy(), Doc: Doc{"SchemaVersion": Doc{"Major": 2, "Minor": 0}}}
	for _, name := range []string{"ID", "Name", "Owner", "Flags"} {
		if d.has(name) {
			o.Doc[name] = d.value(name)
		}
	}

	if dns := dnsFromV1(d); len(dns) > 0 {
		o.Doc["Dns"] = dns
	}
	switch k {
	case Network:
		networkFromV1(o.Doc, d)
	case Endpoint:
		endpointFromV1(o.Doc, d)
	case Namespace:
		o.Doc["Type"] = "Guest"
		if d.flag("IsDefault") {
			o.Doc["Type"] = "GuestDefault"
		}
	case LoadBalancer, Route:
		policyListFromV1(o.Doc, d, k)
	}
	return o
}

// dnsFromV1 is empty without any of the three fields.
func dnsFromV1(d Doc) Doc {
	dns := Doc{}
	if v := d.strs("DNSServerList"); len(v) > 0 {
		dns["ServerList"] = v
	}
	if v := d.strs("DNSSuffix"); len(v) > 0 {
		dns["Search"] = v
	}
	if v := d.str("DNSDomain"); v != "" {
		dns["Domain"] = v
	}
	return dns
}

// networkFromV1 adds the v2 form of a v1 network to the document to. A subnet's gateway becomes a default route of its
// family.
func networkFromV1(to, d Doc) {
	to["Type"] = d.value("Type")
	to["Policies"] = policiesFromV1(d.docs("Policies"))
	if name := d.str("NetworkAdapterName"); name != "" {
		to["Policies"] = append(to.docs("Policies"),
			Doc{"Type": "NetAdapterName", "Settings": Doc{"NetworkAdapterName": name}})
	}
	if pools := d.docs("MacPools"); len(pools) > 0 {
		to["MacPool"] = Doc{"Ranges": pools}
	}

	subnets := []Doc{}
	for _, s := range d.docs("Subnets") {
		sub := Doc{"IpAddressPrefix": s.value("AddressPrefix"), "Policies": policiesFromV1(s.docs("Policies"))}
		if gw, err := netip.ParseAddr(s.str("GatewayAddress")); err == nil {
			destination := "0.0.0.0/0"
			// Documents of v2 have a default route where v1 has a gateway.
			if gw.Is6() {
				destination = "::/0"
			}
			sub["Routes"] = []Doc{{"NextHop": gw.String(), "DestinationPrefix": destination}}
		}
		subnets = append(subnets, sub)
	}
	if len(subnets) > 0 {
		to["Ipams"] = []Doc{{"Type": "Static", "Subnets": subnets}}
	}
}

// endpointFromV1 adds the v2 form of a v1 endpoint to the document to. An endpoint of v1 has at most one address and
// one gateway of each family.
func endpointFromV1(to, d Doc) {
	to["HostComputeNetwork"] = canonicalID(d.str("VirtualNetwork"))
	to["Policies"] = policiesFromV1(d.docs("Policies"))
	if mac := d.str("MacAddress"); mac != "" {
		to["MacAddress"] = mac
	}
	configs := []Doc{}
	for _, f := range [][2]string{{"IPAddress", "PrefixLength"}, {"IPv6Address", "IPv6PrefixLength"}} {
		if d.str(f[0]) != "" {
			configs = append(configs, Doc{"IpAddress": d.str(f[0]), "PrefixLength": d.num(f[1])})
		}
	}
	if len(configs) > 0 {
		to["IpConfigurations"] = configs
	}

	routes := []Doc{}
	for _, f := range [][2]string{{"GatewayAddress", "0.0.0.0/0"}, {"GatewayAddressV6", "::/0"}} {
		if gw := d.str(f[0]); gw != "" {
			routes = append(routes, Doc{"NextHop": gw, "DestinationPrefix": f[1]})
		}
	}
	if len(routes) > 0 {
		to["Routes"] = routes
	}
	flags := d.num("Flags")
	if d.flag("IsRemoteEndpoint") {
		flags |= flagRemote
	}
	to["Flags"] = flags
}

// policyListFromV1 adds the v2 form of a v1 policy list, which is a load balancer or an SDN route by k. References are
// paths such as /endpoints/ID.
func policyListFromV1(to, d Doc, k Kind) {
	ids := []string{}
	for _, ref := range d.strs("References") {
		ids = append(ids, canonicalID(ref[strings.LastIndex(ref, "/")+1:]))
	}
	to["HostComputeEndpoints"] = ids
	if k == Route {
		list := []Doc{}
		for _, p := range d.docs("Policies") {
			list = append(list, Doc{"DestinationPrefix": p.value("DestinationPrefix"), "NextHop": p.str("NextHop"),
				"NeedEncap": p.flag("NeedEncap")})
		}
		to["Setting"] = list
		return
	}

	// The last policy decides about what v2 has once for the whole load balancer.
	mappings := []Doc{}
	for _, p := range d.docs("Policies") {
		m := Doc{"Protocol": protocol(p), "InternalPort": p.num("InternalPort"), "ExternalPort": p.num("ExternalPort")}
		if p.flag("ILB") {
			m["Flags"] = 1
		}
		mappings = append(mappings, m)
		to["SourceVIP"] = p.str("SourceVIP")
		to["FrontendVIPs"] = p.strs("VIPs")
		if p.flag("IsDSR") {
			to["Flags"] = 1
		}
	}

	to["PortMappings"] = mappings
}

// viewV1 is an object as v1 readers see it.
// Fields that only v1 has come first, and are overwritten by what HNS knows.
func (h *Host) viewV1(s *State, o *Object) Doc {
	v := Doc{}
	if o.V1 != nil {
		v = o.V1.copy()
	}
	switch o.Kind {
	case Network:
		h.networkToV1(s, v, o)
	case Endpoint:
		endpointToV1(s, v, o)
	case Namespace:
		namespaceToV1(v, o)
	default:
		policyListToV1(v, o)
	}
	return v
}

// networkToV1 adds to v what v1 shows of a network. Three policies are fields of the network in v1.
func (h *Host) networkToV1(s *State, v Doc, o *Object) {
	d := o.Doc
	v.set("ID", strings.ToUpper(o.ID))
	v.set("Name", d.str("Name"))
	v.set("Type", d.str("Type"))
	v.set("State", 1)
	v.set("Version", h.Profile.Version.number())
	v.set("ManagementIP", h.NodeAddr)
	v.set("DrMacAddress", h.NodeMAC)
	v.set("MacPools", d.doc("MacPool").docs("Ranges"))
	subnets := []Doc{}
	for _, sub := range subnetsOf(d) {
		out := Doc{"ID": strings.ToUpper(sub.id), "AddressPrefix": sub.prefix.String(), "ObjectType": 5,
			"Policies": []Doc{}}
		if sub.gateway.IsValid() {
			out["GatewayAddress"] = sub.gateway.String()
		}
		if sub.vsid != 0 {
			out["Policies"] = []Doc{{"Type": "VSID", "VSID": sub.vsid}}
		}
		subnets = append(subnets, out)
	}

	v.set("Subnets", subnets)
	policies := []Doc{}
	for _, p := range d.docs("Policies") {
		switch p.str("Type") {
		case "NetAdapterName":
			v.set("NetworkAdapterName", p.doc("Settings").str("NetworkAdapterName"))
		case "ProviderAddress":
			v.set("ManagementIP", p.doc("Settings").str("ProviderAddress"))
		case "DrMacAddress":
			v.set("DrMacAddress", p.doc("Settings").str("Address"))
		default:
			policies = append(policies, policyToV1(p))
		}
	}

	// Remote endpoints count as well.
	v.set("Policies", policies)
	count := 0
	for range s.having(networkOf, o.ID) {
		count++
	}
	v.set("CurrentEndpointCount", count)
	v.set("TotalEndpoints", count)
}

// endpointToV1 adds to v what v1 shows of an endpoint, which has one address of each family: of several, the last.
func endpointToV1(s *State, v Doc, o *Object) {
	d := o.Doc
	v.set("ID", strings.ToUpper(o.ID))
	v.set("Name", d.str("Name"))
	v.set("VirtualNetwork", strings.ToUpper(d.str("HostComputeNetwork")))
	if n, ok := s.Get(Network, d.str("HostComputeNetwork")); ok {
		v.set("VirtualNetworkName", n.Doc.str("Name"))
	}
	v.set("MacAddress", d.str("MacAddress"))
	v.set("State", d.num("State"))
	v.set("IsRemoteEndpoint", isRemote(d))
	v.set("Policies", policiesToV1(d.docs("Policies")))
	for _, c := range d.docs("IpConfigurations") {
		if strings.Contains(c.str("IpAddress"), ":") {
			v.set("IPv6Address", c.str("IpAddress"))
			v.set("IPv6PrefixLength", c.num("PrefixLength"))
		} else {
			v.set("IPAddress", c.str("IpAddress"))
			v.set("PrefixLength", c.num("PrefixLength"))
		}
	}

	for _, r := range d.docs("Routes") {
		switch r.str("DestinationPrefix") {
		case "0.0.0.0/0":
			v.set("GatewayAddress", r.str("NextHop"))
		case "::/0":
			v.set("GatewayAddressV6", r.str("NextHop"))
		}
	}

	if dns := d.doc("Dns"); len(dns) > 0 {
		v.set("DNSServerList", strings.Join(dns.strs("ServerList"), ","))
		v.set("DNSSuffix", strings.Join(dns.strs("Search"), ","))
	}
	if ns, ok := s.Get(Namespace, d.str("HostComputeNamespace")); ok {
		v.set("Namespace", Doc{"ID": ns.ID, "CompartmentId": ns.Doc.num("NamespaceId")})
	}
}

// namespaceToV1 shows a compartment under the names that it has in v1.
func namespaceToV1(v Doc, o *Object) {
	list := []Doc{}
	for _, r := range o.Doc.docs("Resources") {
		list = append(list, Doc{"Type": r.str("Type"), "Data": Doc{"Id": r.doc("Data").str("ID")}})
	}
	v.set("Id", o.ID)
	v.set("CompartmentId", o.Doc.num("NamespaceId"))
	v.set("CompartmentGuid", o.Doc.str("NamespaceGuid"))
	v.set("IsDefault", strings.HasSuffix(o.Doc.str("Type"), "Default"))
	v.set("ResourceList", list)
}

// policyListToV1 adds to v what v1 shows of a load balancer or an SDN route: a list of policies, one per port mapping
// or route.
func policyListToV1(v Doc, o *Object) {
	refs := []string{}
	for _, id := range o.Doc.strs("HostComputeEndpoints") {
		refs = append(refs, "/endpoints/"+id)
	}
	v.set("ID", o.ID)
	v.set("References", refs)
	policies := []Doc{}
	if o.Kind == Route {
		for _, r := range o.Doc.docs("Setting") {
			p := r.copy()
			p["Type"] = "ROUTE"
			policies = append(policies, p)
		}
	}
	for _, m := range o.Doc.docs("PortMappings") {
		policies = append(policies, Doc{
			"Type": "ELB", "Protocol": protocol(m), "InternalPort": m.num("InternalPort"),
			"ExternalPort": m.num("ExternalPort"),
			"SourceVIP":    o.Doc.str("SourceVIP"), "VIPs": o.Doc.strs("FrontendVIPs"),
			"ILB": m.num("Flags")&1 != 0, "IsDSR": o.Doc.num("Flags")&1 != 0,
		})
	}
	v.set("Policies", policies)
}
