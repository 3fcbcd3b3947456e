package hcn

import (
	shim "github.com/Microsoft/hcsshim/hcn"

	"porthole.dev/porthole/hns"
)

// networkTo goes through hcsshim, which checks what HNS would take amiss.
func networkTo(n hns.Network) shim.HostComputeNetwork {
	doc := shim.HostComputeNetwork{
		Id: string(n.ID), Name: n.Name, Type: shim.NetworkType(n.Type), SchemaVersion: shim.V2SchemaVersion(),
		Dns: shim.Dns{Domain: n.DNS.Domain, Search: n.DNS.Search, ServerList: n.DNS.Servers, Options: n.DNS.Options},
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
			Type: shim.NetAdapterName, Settings: mustJSON(map[string]string{"NetworkAdapterName": n.Adapter}),
		})
	}
	return doc
}
