package hcn

import (
	"encoding/json"
	"net/netip"
	"strings"

	"porthole.dev/porthole/hns"
)

// The documents of HNS's v2 schema, as far as we read and write them. What HNS returns may be incomplete
// (kubernetes/kubernetes#141488): what is missing or does not parse is left out of the value, and never an index out of
// range.

type schemaVersion struct{ Major, Minor int }

var v2 = schemaVersion{Major: 2}

// query asks for all objects, or for those that a filter, JSON as a string, matches.
type query struct {
	SchemaVersion schemaVersion
	Filter        string `json:",omitempty"`
}

// queryFor is a query for all objects, or for those that fit a filter, which is JSON within JSON.
func queryFor(filter map[string]string) string {
	q := query{SchemaVersion: v2}
	if len(filter) > 0 {
		q.Filter = string(mustJSON(filter))
	}
	return string(mustJSON(q))
}

// mustJSON is for values of our own making, which always marshal.
func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return data
}

// The documents have the fields that are used here; HNS has more.

type policyDoc struct {
	Type     string
	Settings json.RawMessage `json:",omitempty"`
}

type routeDoc struct {
	NextHop           string `json:",omitempty"`
	DestinationPrefix string `json:",omitempty"`
	Metric            uint16 `json:",omitempty"`
}

type dnsDoc struct {
	Domain     string   `json:",omitempty"`
	Search     []string `json:",omitempty"`
	ServerList []string `json:",omitempty"`
	Options    []string `json:",omitempty"`
}

type subnetDoc struct {
	IpAddressPrefix string
	Policies        []policyDoc
	Routes          []routeDoc
}

type ipamDoc struct{ Subnets []subnetDoc }

type networkDoc struct {
	ID, Name, Type string
	Policies       []policyDoc
	Dns            dnsDoc
	Ipams          []ipamDoc
	Flags          uint32
}

// transientNetwork is the flag of a network that HNS does not keep over a reboot (hcsshim: EnableNonPersistent).
const transientNetwork = 8

// networkFrom translates a document of HNS. What cannot be parsed is left out, not an error: networks of other
// programs are listed with ours.
func networkFrom(doc networkDoc) hns.Network {
	n := hns.Network{ID: hns.NetworkID(hns.NormalID(doc.ID)), Name: doc.Name, Type: doc.Type, DNS: dnsFrom(doc.Dns),
		Transient: doc.Flags&transientNetwork != 0}
	if n.Type == "" {
		n.Type = "NAT" // real HNS may leave this one out, as hcsshim knows
	}

	for _, ipam := range doc.Ipams {
		for _, s := range ipam.Subnets {
			prefix, err := netip.ParsePrefix(s.IpAddressPrefix)
			if err != nil {
				continue
			}
			subnet := hns.Subnet{Prefix: prefix.Masked()}
			for _, r := range s.Routes {
				if gw, err := netip.ParseAddr(r.NextHop); err == nil && strings.HasSuffix(r.DestinationPrefix, "/0") {
					subnet.Gateway = gw
				}
			}
			subnet.VSID = virtualSubnet(s.Policies)
			n.Subnets = append(n.Subnets, subnet)
		}
	}

	for _, p := range doc.Policies {
		networkPolicy(&n, p)
	}
	return n
}

// virtualSubnet returns the VXLAN network identifier that the policies of a subnet name, 0 if they name none.
func virtualSubnet(policies []policyDoc) uint32 {
	for _, p := range policies {
		var s struct{ IsolationId uint32 }
		if p.Type == "VSID" && json.Unmarshal(p.Settings, &s) == nil {
			return s.IsolationId
		}
	}
	return 0
}

// remoteSubnetDoc holds the settings of a policy RemoteSubnetRoute.
type remoteSubnetDoc struct {
	DestinationPrefix           string
	IsolationId                 uint32
	ProviderAddress             string
	DistributedRouterMacAddress string
}

// networkPolicy takes over from a policy what Network has a field for.
func networkPolicy(n *hns.Network, p policyDoc) {
	if p.Type == "HostRoute" { // it may have no settings
		n.HostRoute = true
		return
	}
	var s struct {
		NetworkAdapterName, Address, ExtensionID string
		Enable                                   bool
		Port                                     uint16
		remoteSubnetDoc
	}
	if json.Unmarshal(p.Settings, &s) != nil {
		return
	}

	switch p.Type {
	case "VSwitchExtension":
		if s.Enable {
			n.Extension = s.ExtensionID
		}
	case "NetAdapterName":
		n.Adapter = s.NetworkAdapterName
	case "ProviderAddress":
		n.Management, _ = netip.ParseAddr(s.ProviderAddress)
	case "DrMacAddress":
		n.RouterMAC = s.Address
	case "VxlanPort":
		n.VxlanPort = s.Port
	case "RemoteSubnetRoute":
		prefix, err := netip.ParsePrefix(s.DestinationPrefix)
		provider, err2 := netip.ParseAddr(s.ProviderAddress)
		if err == nil && err2 == nil {
			n.RemoteSubnets = append(n.RemoteSubnets,
				hns.RemoteSubnet{Prefix: prefix.Masked(), Provider: provider, VSID: s.IsolationId,
					MAC: s.DistributedRouterMacAddress})
		}
	}
}

type ipDoc struct {
	IpAddress    string `json:",omitempty"`
	PrefixLength uint8  `json:",omitempty"`
}

// remoteEndpoint is the flag of an endpoint that stands for something on another host.
const remoteEndpoint = 1

type endpointDoc struct {
	ID                   string      `json:",omitempty"`
	Name                 string      `json:",omitempty"`
	HostComputeNetwork   string      `json:",omitempty"`
	HostComputeNamespace string      `json:",omitempty"`
	Policies             []policyDoc `json:",omitempty"`
	IpConfigurations     []ipDoc     `json:",omitempty"`
	Dns                  dnsDoc
	Routes               []routeDoc    `json:",omitempty"`
	MacAddress           string        `json:",omitempty"`
	Flags                uint32        `json:",omitempty"`
	State                uint16        `json:",omitempty"`
	SchemaVersion        schemaVersion `json:",omitempty"`
}

// endpointFrom translates a document of HNS, and leaves out what cannot be parsed. All policies are kept as they are,
// so that an endpoint can be compared with the wanted one. PrefixLen is that of the first address.
func endpointFrom(doc endpointDoc) hns.Endpoint {
	e := hns.Endpoint{
		ID: hns.EndpointID(hns.NormalID(doc.ID)), Name: doc.Name,
		Network: hns.NetworkID(hns.NormalID(doc.HostComputeNetwork)),
		Remote:  doc.Flags&remoteEndpoint != 0, MAC: doc.MacAddress, DNS: dnsFrom(doc.Dns),
		State: hns.EndpointState(doc.State),
	}

	if ns := hns.NormalID(doc.HostComputeNamespace); ns != hns.NoNamespace {
		e.Namespace = hns.NamespaceID(ns)
	}

	for i, c := range doc.IpConfigurations {
		addr, err := netip.ParseAddr(c.IpAddress)
		if err != nil {
			continue
		}
		e.Addrs = append(e.Addrs, addr.Unmap())
		if i == 0 {
			e.PrefixLen = int(c.PrefixLength)
		}
	}

	for _, r := range doc.Routes {
		dst, err := netip.ParsePrefix(r.DestinationPrefix)
		hop, err2 := netip.ParseAddr(r.NextHop)
		if err == nil && err2 == nil {
			e.Routes = append(e.Routes, hns.Route{Destination: dst, NextHop: hop})
		}
	}

	for _, p := range doc.Policies {
		e.Policies = append(e.Policies, hns.Policy{Type: p.Type, Settings: p.Settings})
		if p.Type == "ProviderAddress" {
			var s struct{ ProviderAddress string }
			if json.Unmarshal(p.Settings, &s) == nil {
				e.Provider, _ = netip.ParseAddr(s.ProviderAddress)
			}
		}
	}
	return e
}

// endpointTo is the inverse of endpointFrom. Provider is not written: on remote endpoints it is a policy. Neither is
// State.
func endpointTo(e hns.Endpoint) endpointDoc {
	doc := endpointDoc{
		ID: string(e.ID), Name: e.Name, HostComputeNetwork: string(e.Network), MacAddress: e.MAC, Dns: dnsTo(e.DNS),
		SchemaVersion: v2,
	}
	if e.Remote {
		doc.Flags = remoteEndpoint
	}

	for i, a := range e.Addrs {
		c := ipDoc{IpAddress: a.String()}
		if i == 0 {
			c.PrefixLength = uint8(e.PrefixLen)
		}
		doc.IpConfigurations = append(doc.IpConfigurations, c)
	}

	for _, r := range e.Routes {
		doc.Routes = append(doc.Routes,
			routeDoc{NextHop: r.NextHop.String(), DestinationPrefix: r.Destination.String()})
	}
	for _, p := range e.Policies {
		doc.Policies = append(doc.Policies, policyDoc{Type: p.Type, Settings: p.Settings})
	}
	return doc
}

type portDoc struct {
	Protocol         uint32 `json:",omitempty"`
	InternalPort     uint16 `json:",omitempty"`
	ExternalPort     uint16 `json:",omitempty"`
	DistributionType uint32 `json:",omitempty"`
	Flags            uint32 `json:",omitempty"`
}

// Flags of a load balancer.
const (
	directServerReturn = 1
	ipv6Balancer       = 2
)

type balancerDoc struct {
	ID                   string        `json:",omitempty"`
	HostComputeEndpoints []string      `json:",omitempty"`
	SourceVIP            string        `json:",omitempty"`
	FrontendVIPs         []string      `json:",omitempty"`
	PortMappings         []portDoc     `json:",omitempty"`
	SchemaVersion        schemaVersion `json:",omitempty"`
	Flags                uint32        `json:",omitempty"`
}

// loadBalancerFrom translates a document of HNS, and leaves out what cannot be parsed.
func loadBalancerFrom(doc balancerDoc) hns.LoadBalancer {
	lb := hns.LoadBalancer{
		ID: hns.LoadBalancerID(hns.NormalID(doc.ID)), DSR: doc.Flags&directServerReturn != 0,
		IPv6: doc.Flags&ipv6Balancer != 0,
	}
	lb.SourceVIP, _ = netip.ParseAddr(doc.SourceVIP)
	for _, id := range doc.HostComputeEndpoints {
		lb.Endpoints = append(lb.Endpoints, hns.EndpointID(hns.NormalID(id)))
	}

	for _, v := range doc.FrontendVIPs {
		if vip, err := netip.ParseAddr(v); err == nil {
			lb.VIPs = append(lb.VIPs, vip.Unmap())
		}
	}

	for _, p := range doc.PortMappings {
		lb.Ports = append(lb.Ports, hns.Port{
			Protocol: hns.Protocol(p.Protocol), External: p.ExternalPort, Internal: p.InternalPort,
			Distribution: hns.Distribution(p.DistributionType), Flags: hns.PortFlags(p.Flags),
		})
	}
	return lb
}

// loadBalancerTo is the inverse of loadBalancerFrom.
func loadBalancerTo(lb hns.LoadBalancer) balancerDoc {
	doc := balancerDoc{ID: string(lb.ID), SchemaVersion: v2}
	if lb.DSR {
		doc.Flags |= directServerReturn
	}
	if lb.IPv6 {
		doc.Flags |= ipv6Balancer
	}

	if lb.SourceVIP.IsValid() {
		doc.SourceVIP = lb.SourceVIP.String()
	}

	for _, id := range lb.Endpoints {
		doc.HostComputeEndpoints = append(doc.HostComputeEndpoints, string(id))
	}

	for _, v := range lb.VIPs {
		doc.FrontendVIPs = append(doc.FrontendVIPs, v.String())
	}
	for _, p := range lb.Ports {
		doc.PortMappings = append(doc.PortMappings, portDoc{
			Protocol: uint32(p.Protocol), InternalPort: p.Internal, ExternalPort: p.External,
			DistributionType: uint32(p.Distribution), Flags: uint32(p.Flags),
		})
	}
	return doc
}

// dnsFrom and dnsTo translate settings of DNS.
func dnsFrom(d dnsDoc) hns.DNS {
	return hns.DNS{Domain: d.Domain, Search: d.Search, Servers: d.ServerList, Options: d.Options}
}

func dnsTo(d hns.DNS) dnsDoc {
	return dnsDoc{Domain: d.Domain, Search: d.Search, ServerList: d.Servers, Options: d.Options}
}
