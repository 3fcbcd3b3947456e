package hcn

import (
	"encoding/json"
	"net/netip"
	"strings"

	shim "github.com/Microsoft/hcsshim/hcn"

	"porthole.dev/porthole/hns"
)

// Documents that HNS returns may be incomplete (kubernetes/kubernetes#141488): what is missing or does not parse is
// left out of the value, and never an index out of range.

func networkFrom(doc shim.HostComputeNetwork) hns.Network {
	n := hns.Network{
		ID:   hns.NetworkID(hns.NormalID(doc.Id)),
		Name: doc.Name,
		Type: string(doc.Type),
		DNS:  dnsFrom(doc.Dns),
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
			n.Subnets = append(n.Subnets, subnet)
		}
	}
	for _, p := range doc.Policies {
		switch p.Type {
		case shim.NetAdapterName:
			var s struct{ NetworkAdapterName string }
			if json.Unmarshal(p.Settings, &s) == nil {
				n.Adapter = s.NetworkAdapterName
			}
		case shim.ProviderAddress:
			var s struct{ ProviderAddress string }
			if json.Unmarshal(p.Settings, &s) == nil {
				n.Management, _ = netip.ParseAddr(s.ProviderAddress)
			}
		}
	}
	return n
}

func networkTo(n hns.Network) shim.HostComputeNetwork {
	doc := shim.HostComputeNetwork{
		Id: string(n.ID), Name: n.Name, Type: shim.NetworkType(n.Type), Dns: dnsTo(n.DNS),
		SchemaVersion: shim.V2SchemaVersion(),
	}
	ipam := shim.Ipam{Type: "Static"}
	for _, s := range n.Subnets {
		all := "0.0.0.0/0"
		if s.Prefix.Addr().Is6() {
			all = "::/0"
		}
		ipam.Subnets = append(ipam.Subnets, shim.Subnet{
			IpAddressPrefix: s.Prefix.String(),
			Routes:          []shim.Route{{NextHop: s.Gateway.String(), DestinationPrefix: all}},
		})
	}
	if len(ipam.Subnets) > 0 {
		doc.Ipams = []shim.Ipam{ipam}
	}
	if n.Adapter != "" {
		doc.Policies = append(doc.Policies, shim.NetworkPolicy{
			Type: shim.NetAdapterName, Settings: rawJSON(map[string]string{"NetworkAdapterName": n.Adapter}),
		})
	}
	return doc
}

func endpointFrom(doc shim.HostComputeEndpoint) hns.Endpoint {
	e := hns.Endpoint{
		ID:      hns.EndpointID(hns.NormalID(doc.Id)),
		Name:    doc.Name,
		Network: hns.NetworkID(hns.NormalID(doc.HostComputeNetwork)),
		Remote:  doc.Flags&shim.EndpointFlagsRemoteEndpoint != 0,
		MAC:     doc.MacAddress,
		DNS:     dnsFrom(doc.Dns),
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
		e.Policies = append(e.Policies, hns.Policy{Type: string(p.Type), Settings: p.Settings})
	}
	return e
}

func endpointTo(e hns.Endpoint) shim.HostComputeEndpoint {
	doc := shim.HostComputeEndpoint{
		Id: string(e.ID), Name: e.Name, HostComputeNetwork: string(e.Network), MacAddress: e.MAC, Dns: dnsTo(e.DNS),
		SchemaVersion: shim.V2SchemaVersion(),
	}
	if e.Remote {
		doc.Flags = shim.EndpointFlagsRemoteEndpoint
	}
	for i, a := range e.Addrs {
		c := shim.IpConfig{IpAddress: a.String()}
		if i == 0 {
			c.PrefixLength = uint8(e.PrefixLen)
		}
		doc.IpConfigurations = append(doc.IpConfigurations, c)
	}
	for _, r := range e.Routes {
		doc.Routes = append(doc.Routes, shim.Route{NextHop: r.NextHop.String(), DestinationPrefix: r.Destination.String()})
	}
	for _, p := range e.Policies {
		doc.Policies = append(doc.Policies, shim.EndpointPolicy{Type: shim.EndpointPolicyType(p.Type), Settings: p.Settings})
	}
	return doc
}

func loadBalancerFrom(doc shim.HostComputeLoadBalancer) hns.LoadBalancer {
	lb := hns.LoadBalancer{
		ID:   hns.LoadBalancerID(hns.NormalID(doc.Id)),
		DSR:  doc.Flags&shim.LoadBalancerFlagsDSR != 0,
		IPv6: doc.Flags&shim.LoadBalancerFlagsIPv6 != 0,
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

func loadBalancerTo(lb hns.LoadBalancer) shim.HostComputeLoadBalancer {
	doc := shim.HostComputeLoadBalancer{Id: string(lb.ID), SchemaVersion: shim.V2SchemaVersion()}
	if lb.DSR {
		doc.Flags |= shim.LoadBalancerFlagsDSR
	}
	if lb.IPv6 {
		doc.Flags |= shim.LoadBalancerFlagsIPv6
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
		doc.PortMappings = append(doc.PortMappings, shim.LoadBalancerPortMapping{
			Protocol: uint32(p.Protocol), InternalPort: p.Internal, ExternalPort: p.External,
			DistributionType: shim.LoadBalancerDistribution(p.Distribution),
			Flags:            shim.LoadBalancerPortMappingFlags(p.Flags),
		})
	}
	return doc
}

func namespaceFrom(doc shim.HostComputeNamespace) hns.Namespace {
	n := hns.Namespace{ID: hns.NamespaceID(hns.NormalID(doc.Id)), Type: string(doc.Type)}
	for _, r := range doc.Resources {
		var data struct{ ID string }
		if r.Type == shim.NamespaceResourceTypeEndpoint && json.Unmarshal(r.Data, &data) == nil {
			n.Endpoints = append(n.Endpoints, hns.EndpointID(hns.NormalID(data.ID)))
		}
	}
	return n
}

func dnsFrom(d shim.Dns) hns.DNS {
	return hns.DNS{Domain: d.Domain, Search: d.Search, Servers: d.ServerList, Options: d.Options}
}

func dnsTo(d hns.DNS) shim.Dns {
	return shim.Dns{Domain: d.Domain, Search: d.Search, ServerList: d.Servers, Options: d.Options}
}
