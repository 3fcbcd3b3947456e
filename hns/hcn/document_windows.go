package hcn

import (
	"encoding/json"

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
		// The gateway of a subnet is the next hop of its default route.
		all := "0.0.0.0/0"
		if s.Prefix.Addr().Is6() {
			all = "::/0"
		}
		subnet := shim.Subnet{
			IpAddressPrefix: s.Prefix.String(),
			Routes:          []shim.Route{{NextHop: s.Gateway.String(), DestinationPrefix: all}},
		}
		if s.VSID != 0 {
			vsid := shim.SubnetPolicy{Type: shim.VSID, Settings: mustJSON(map[string]uint32{"IsolationId": s.VSID})}
			subnet.Policies = []json.RawMessage{mustJSON(vsid)}
		}
		ipam.Subnets = append(ipam.Subnets, subnet)
	}

	if len(ipam.Subnets) > 0 {
		doc.Ipams = []shim.Ipam{ipam}
	}
	if n.Extension != "" {
		doc.Policies = append(doc.Policies, shim.NetworkPolicy{
			Type:     shim.VSwitchExtension,
			Settings: mustJSON(shim.VSwitchExtensionNetworkPolicySetting{ExtensionID: n.Extension, Enable: true}),
		})
	}
	if n.Adapter != "" {
		doc.Policies = append(doc.Policies, shim.NetworkPolicy{
			Type: shim.NetAdapterName, Settings: mustJSON(map[string]string{"NetworkAdapterName": n.Adapter}),
		})
	}
	if n.VxlanPort != 0 {
		doc.Policies = append(doc.Policies,
			shim.NetworkPolicy{Type: shim.VxlanPort, Settings: mustJSON(map[string]uint16{"Port": n.VxlanPort})})
	}
	if n.HostRoute {
		doc.Policies = append(doc.Policies, shim.NetworkPolicy{Type: shim.HostRoute, Settings: json.RawMessage("{}")})
	}
	if n.Transient {
		doc.Flags = shim.EnableNonPersistent
	}
	return doc
}

// networkPolicyDoc asks for a change of one policy of a network.
func networkPolicyDoc(request string, p policyDoc) modificationDoc {
	return modificationDoc{ResourceType: "Policy", RequestType: request,
		Settings: struct{ Policies []policyDoc }{[]policyDoc{p}}}
}

// namespaceDoc is a namespace with what is in it.
type namespaceDoc struct {
	ID        string
	Type      string
	Resources []resourceDoc
}

type resourceDoc struct {
	Type string
	Data json.RawMessage
}

// namespaceFrom leaves out containers.
func namespaceFrom(doc namespaceDoc) hns.Namespace {
	n := hns.Namespace{ID: hns.NamespaceID(hns.NormalID(doc.ID)), Type: doc.Type}
	for _, r := range doc.Resources {
		var data struct{ ID string }
		if r.Type == "Endpoint" && json.Unmarshal(r.Data, &data) == nil {
			n.Endpoints = append(n.Endpoints, hns.EndpointID(hns.NormalID(data.ID)))
		}
	}
	return n
}

// modificationDoc asks for a change of part of an object.
type modificationDoc struct {
	ResourceType string
	RequestType  string
	Settings     any
}

// membershipDoc names an endpoint that a namespace gets or loses.
type membershipDoc struct {
	EndpointID string `json:"EndpointId"`
}
