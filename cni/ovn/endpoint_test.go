package ovn

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/internal/ovnet"
)

const guid = "0a1b2c3d-0000-4000-8000-000000000001"

// podNetwork is a network in which pods work.
func podNetwork() hns.Network {
	return hns.Network{ID: "net-1", Name: "porthole", Type: hns.Transparent,
		Extension: "583CC151-73EC-4A6A-8B47-578297AD7623",
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.1.0/24"),
			Gateway: netip.MustParseAddr("10.244.1.1")}}}
}

func podLink() Link {
	return Link{Name: ovnet.PodLink("c", "eth0"), Guest: "eth0", Container: "c",
		Namespace: "{" + strings.ToUpper(guid) + "}", Network: "porthole",
		MAC: "0a:58:0a:f4:01:03", Addr: netip.MustParsePrefix("10.244.1.3/24"),
		Gateway: netip.MustParseAddr("10.244.1.1"), MTU: 1442,
		DNS: types.DNS{Nameservers: []string{"10.96.0.10"}, Search: []string{"cluster.local"}}}
}

// host returns an HNS with the network and the namespace of a pod.
func host(network hns.Network) (*hnstest.Fake, Endpoints) {
	f := hnstest.New(hns.Version{Major: 13}, network)
	f.AddNamespace(guid)
	return f, Endpoints{f, f}
}

func TestEndpoint(t *testing.T) {
	f, e := host(podNetwork())
	l := podLink()
	for range 2 { // again after a kill: nothing new
		if err := e.Make(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	all, err := f.Endpoints(t.Context(), "net-1")
	if err != nil || len(all) != 1 {
		t.Fatalf("endpoints %v, %v; want one", all, err)
	}

	got := all[0]
	if got.Name != l.Name || !slices.Equal(got.Addrs, []netip.Addr{l.Addr.Addr()}) || got.PrefixLen != 24 ||
		got.MAC != "0A-58-0A-F4-01-03" || got.Namespace != guid {
		t.Errorf("endpoint %+v", got)
	}
	if len(got.Routes) != 1 || got.Routes[0].Destination.String() != "0.0.0.0/0" || got.Routes[0].NextHop != l.Gateway {
		t.Errorf("routes %v", got.Routes)
	}
	if len(got.Policies) != 1 || got.Policies[0].Type != "EncapOverhead" ||
		string(got.Policies[0].Settings) != `{"Overhead":58}` {
		t.Errorf("policies %+v", got.Policies)
	}
	if !slices.Equal(got.DNS.Servers, l.DNS.Nameservers) || !slices.Equal(got.DNS.Search, l.DNS.Search) {
		t.Errorf("DNS %+v", got.DNS)
	}
	if err := e.Check(t.Context(), l); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	for range 2 {
		if err := e.Delete(t.Context(), l); err != nil {
			t.Errorf("DEL: %v", err)
		}
	}
	if err := e.Check(t.Context(), l); !hns.IsAbsent(err) {
		t.Errorf("CHECK of a deleted endpoint: %v", err)
	}
}

// TestEndpointReplaced: an endpoint of an earlier attempt with other settings is replaced.
func TestEndpointReplaced(t *testing.T) {
	for name, spoil := range map[string]func(*hns.Endpoint){
		"network": func(e *hns.Endpoint) { e.Network = "net-0" },
		"address": func(e *hns.Endpoint) { e.Addrs = []netip.Addr{netip.MustParseAddr("10.244.1.9")} },
		"MAC":     func(e *hns.Endpoint) { e.MAC = "0A-58-0A-F4-01-09" },
	} {
		f, e := host(podNetwork())
		l := podLink()
		old := l.endpoint(podNetwork())
		old.ID = "old"
		spoil(&old)
		f.Edit(func(endpoints *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
			*endpoints = append(*endpoints, old)
		})
		if err := e.Make(t.Context(), l); err != nil {
			t.Errorf("another %s: %v", name, err)
			continue
		}

		got, err := f.EndpointByName(t.Context(), l.Name)
		if err != nil || got.ID == "old" || got.Network != "net-1" || !got.Has(l.Addr.Addr()) ||
			got.MAC != "0A-58-0A-F4-01-03" {
			t.Errorf("another %s: %+v, %v", name, got, err)
		}
	}
}

// TestEndpointRefused: what cannot work is refused before anything is made.
func TestEndpointRefused(t *testing.T) {
	for want, spoil := range map[string]func(*hns.Network, *Link){
		"is of type Overlay":      func(n *hns.Network, _ *Link) { n.Type = "Overlay" },
		"has no switch extension": func(n *hns.Network, _ *Link) { n.Extension = "" },
		"no subnet with the pod's": func(_ *hns.Network, l *Link) {
			l.Addr = netip.MustParsePrefix("10.244.9.3/24")
		},
		`"/var/run/netns/x" is not a G`: func(_ *hns.Network, l *Link) { l.Namespace = "/var/run/netns/x" },
		"nowhere":                       func(_ *hns.Network, l *Link) { l.Network = "nowhere" },
	} {
		network, l := podNetwork(), podLink()
		spoil(&network, &l)
		f, e := host(network)
		if err := e.Make(t.Context(), l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error that says %q", err, want)
		}
		if all, err := f.Endpoints(t.Context(), network.ID); err != nil || len(all) > 0 {
			t.Errorf("%s: endpoints %v, %v", want, all, err)
		}
	}
}
