package hcn

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"porthole.dev/porthole/hns"
)

var equateAddrs = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}

// The documents of these tests are those that HNS was seen to be sent, and to answer with, by upstream's proxy and
// flannel.
func TestLoadBalancerDocument(t *testing.T) {
	for _, c := range []struct {
		name, json string
		lb         hns.LoadBalancer
	}{
		{"cluster IP with DSR",
			`{"ID":"706f7274-6c62-8000-8000-000000000001","HostComputeEndpoints":["5395a0a0-0000-4000-8000-000000000001"],"FrontendVIPs":["10.96.0.10"],"PortMappings":[{"Protocol":6,"InternalPort":8080,"ExternalPort":80}],"SchemaVersion":{"Major":2,"Minor":0},"Flags":1}`,
			hns.LoadBalancer{ID: "706f7274-6c62-8000-8000-000000000001",
				Endpoints: []hns.EndpointID{"5395a0a0-0000-4000-8000-000000000001"}, DSR: true,
				VIPs:  []netip.Addr{netip.MustParseAddr("10.96.0.10")},
				Ports: []hns.Port{{Protocol: hns.TCP, External: 80, Internal: 8080}}}},
		{"node port with affinity",
			`{"HostComputeEndpoints":["a"],"PortMappings":[{"Protocol":17,"InternalPort":53,"ExternalPort":30053,"DistributionType":2,"Flags":18}],"SchemaVersion":{"Major":2,"Minor":0}}`,
			hns.LoadBalancer{Endpoints: []hns.EndpointID{"a"},
				Ports: []hns.Port{{Protocol: hns.UDP, External: 30053, Internal: 53,
					Distribution: hns.PerSource, Flags: hns.PortLocalRouted | hns.PortVIPExternal}}}},
		{"IPv6 and source",
			`{"HostComputeEndpoints":["a"],"SourceVIP":"10.244.2.2","FrontendVIPs":["fd00::1"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":2}],"SchemaVersion":{"Major":2,"Minor":0},"Flags":2}`,
			hns.LoadBalancer{Endpoints: []hns.EndpointID{"a"}, SourceVIP: netip.MustParseAddr("10.244.2.2"), IPv6: true,
				VIPs:  []netip.Addr{netip.MustParseAddr("fd00::1")},
				Ports: []hns.Port{{Protocol: hns.TCP, External: 2, Internal: 1}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(mustJSON(loadBalancerTo(c.lb))); got != c.json {
				t.Errorf("wrote\n%s\nwanted\n%s", got, c.json)
			}

			var doc balancerDoc
			if err := json.Unmarshal([]byte(c.json), &doc); err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(c.lb, loadBalancerFrom(doc), equateAddrs); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpointDocument(t *testing.T) {
	e := hns.Endpoint{ID: "706f7274-6570-8000-8000-000000000001", Name: "porthole-remote-10.244.3.5",
		Network: "418ab513-0000-4000-8000-000000000001",
		Remote:  true, Addrs: []netip.Addr{netip.MustParseAddr("10.244.3.5")}, MAC: "02-11-0a-f4-03-05",
		Provider: netip.MustParseAddr("192.0.2.33"),
		Policies: []hns.Policy{{Type: "ProviderAddress",
			Settings: json.RawMessage(`{"ProviderAddress":"192.0.2.33"}`)}}}
	want :=
		`{"ID":"706f7274-6570-8000-8000-000000000001","Name":"porthole-remote-10.244.3.5","HostComputeNetwork":"418ab513-0000-4000-8000-000000000001",` +
			`"Policies":[{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.33"}}],"IpConfigurations":[{"IpAddress":"10.244.3.5"}],"Dns":{},` +
			`"MacAddress":"02-11-0a-f4-03-05","Flags":1,"SchemaVersion":{"Major":2,"Minor":0}}`
	if got := string(mustJSON(endpointTo(e))); got != want {
		t.Errorf("wrote\n%s\nwanted\n%s", got, want)
	}
	var doc endpointDoc
	if err := json.Unmarshal([]byte(want), &doc); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, endpointFrom(doc), equateAddrs); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestNetworkDocument(t *testing.T) {
	var doc networkDoc
	err := json.Unmarshal([]byte(`{"ID":"418AB513-0000-4000-8000-000000000001","Name":"flannel.4096","Type":"Overlay","Flags":8,
 "Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.245.4.0/24","Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}],
   "Routes":[{"NextHop":"10.245.4.1","DestinationPrefix":"0.0.0.0/0"}]}]}],
 "Policies":[{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"Ethernet"}},{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.2"}},
  {"Type":"DrMacAddress","Settings":{"Address":"00-15-5D-11-00-04"}},{"Type":"HostRoute"},
  {"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"10.245.5.0/24","IsolationId":4096,"ProviderAddress":"192.0.2.33",
   "DistributedRouterMacAddress":"00-15-5D-11-00-05"}},{"Type":"VxlanPort","Settings":{"Port":4790}}],"Dns":{}}`), &doc)
	if err != nil {
		t.Fatal(err)
	}
	want := hns.Network{ID: "418ab513-0000-4000-8000-000000000001", Name: "flannel.4096", Type: hns.Overlay,
		Adapter:    "Ethernet",
		Management: netip.MustParseAddr("192.0.2.2"), RouterMAC: "00-15-5D-11-00-04", HostRoute: true, Transient: true,
		VxlanPort: 4790,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.245.4.0/24"),
			Gateway: netip.MustParseAddr("10.245.4.1"), VSID: 4096}},
		RemoteSubnets: []hns.RemoteSubnet{{Prefix: netip.MustParsePrefix("10.245.5.0/24"),
			Provider: netip.MustParseAddr("192.0.2.33"), VSID: 4096, MAC: "00-15-5D-11-00-05"}}}
	if diff := cmp.Diff(want, networkFrom(doc), equateAddrs); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// FuzzDocuments: whatever HNS answers, nothing panics, and what is no address is not one.
func FuzzDocuments(f *testing.F) {
	for _, s := range []string{`{}`, `{"PortMappings":null,"FrontendVIPs":["",null]}`,
		`{"IpConfigurations":[{}],"Routes":[{}],"Policies":[{"Type":"ProviderAddress","Settings":7}]}`,
		`{"Ipams":[{"Subnets":[{"IpAddressPrefix":"x","Routes":[{"NextHop":"y"}]}]}],"Policies":[{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":1}}]}`} {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		var lb balancerDoc
		var e endpointDoc
		var n networkDoc
		_, _, _ = json.Unmarshal(data, &lb), json.Unmarshal(data, &e), json.Unmarshal(data, &n)
		for _, v := range loadBalancerFrom(lb).VIPs {
			if !v.IsValid() {
				t.Errorf("VIP %v of %s", v, data)
			}
		}
		for _, a := range endpointFrom(e).Addrs {
			if !a.IsValid() {
				t.Errorf("address %v of %s", a, data)
			}
		}
		for _, s := range networkFrom(n).Subnets {
			if !s.Prefix.IsValid() {
				t.Errorf("subnet %v of %s", s, data)
			}
		}
	})
}

func TestQuery(t *testing.T) {
	if got, want := queryFor(nil), `{"SchemaVersion":{"Major":2,"Minor":0}}`; got != want {
		t.Errorf("%s, wanted %s", got, want)
	}
	if got, want := queryFor(map[string]string{"Name": `a"b`}),
		`{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"Name\":\"a\\\"b\"}"}`; got != want {
		t.Errorf("%s, wanted %s", got, want)
	}
}

// The first interface's view of a load balancer has the outline of its document; a route is none.
func TestOutlines(t *testing.T) {
	const lists = `[{"ID":"706F7274-6C62-8000-8000-000000000001","References":["/endpoints/5395A0A0-0000-4000-8000-000000000002","/endpoints/5395a0a0-0000-4000-8000-000000000001"],
		"Policies":[{"Type":"ELB","Protocol":17,"InternalPort":53,"ExternalPort":153,"SourceVIP":"10.244.2.2","VIPs":["10.96.0.10"],"ILB":false,"IsDSR":true}]},
		{"ID":"706f7274-6c62-8000-8000-000000000002","References":[],"Policies":[]},
		{"ID":"706f7274-6c62-8000-8000-000000000003","References":["/endpoints/5395a0a0-0000-4000-8000-000000000001"],"Policies":[{"Type":"ROUTE","DestinationPrefix":"10.96.0.0/12","NeedEncap":true}]}]`

	lb := hns.LoadBalancer{ID: "706f7274-6c62-8000-8000-000000000001", SourceVIP: netip.MustParseAddr("10.244.2.2"),
		DSR:       true,
		Endpoints: []hns.EndpointID{"5395a0a0-0000-4000-8000-000000000001", "5395a0a0-0000-4000-8000-000000000002"},
		VIPs:      []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Ports: []hns.Port{{Protocol: hns.UDP, External: 153, Internal: 53, Distribution: hns.PerSource,
			Flags: hns.PortLocalRouted}}}

	var doc []policyListDoc
	if err := json.Unmarshal([]byte(lists), &doc); err != nil {
		t.Fatal(err)
	}

	want := map[hns.LoadBalancerID]uint64{lb.ID: lb.Outline(),
		"706f7274-6c62-8000-8000-000000000002": hns.LoadBalancer{}.Outline()}
	if diff := cmp.Diff(want, outlinesFrom(doc)); diff != "" {
		t.Errorf("outlines (-want +got):\n%s", diff)
	}

	for name, alter := range map[string]func(*hns.LoadBalancer){
		"endpoints": func(lb *hns.LoadBalancer) { lb.Endpoints = lb.Endpoints[:1] },
		"source":    func(lb *hns.LoadBalancer) { lb.SourceVIP = netip.Addr{} },
		"address":   func(lb *hns.LoadBalancer) { lb.VIPs = nil },
		"return":    func(lb *hns.LoadBalancer) { lb.DSR = false },
		"port": func(lb *hns.LoadBalancer) {
			lb.Ports = []hns.Port{{Protocol: hns.UDP, External: 153, Internal: 54}}
		},
		"protocol": func(lb *hns.LoadBalancer) {
			lb.Ports = []hns.Port{{Protocol: hns.TCP, External: 153, Internal: 53}}
		},
		"port's flag": func(lb *hns.LoadBalancer) {
			lb.Ports = []hns.Port{{Protocol: hns.UDP, External: 153, Internal: 53, Flags: hns.PortILB}}
		},
	} {
		other := lb
		if alter(&other); other.Outline() == lb.Outline() {
			t.Errorf("%s: the outline is the same", name)
		}
	}
}
