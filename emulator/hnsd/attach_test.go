package hnsd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// attachHost is a host with a network and an endpoint in it, as porthole routes makes them.
func attachHost(t *testing.T, profile string) (h *Host, s *State, endpoint string) {
	t.Helper()
	p, err := ProfileNamed(profile)
	if err != nil {
		t.Fatal(err)
	}
	ids := 0
	h = &Host{Profile: p, NodeAddr: "10.99.7.21", NewID: func() string {
		ids++
		return fmt.Sprintf("00000000-0000-4000-8000-%012x", ids)
	}}

	s = NewState("")
	if !h.Profile.NoHostNamespace {
		s = NewState(h.NewID())
	}
	s, network, err := h.Create(s, Network, "", "", ParseDoc(`{"Name": "porthole", "Type": "L2Bridge", "Ipams": [{"Subnets": [{"IpAddressPrefix": "10.244.1.0/24",
 "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}]}]}], "SchemaVersion": {"Major": 2}}`))

	if err == nil {
		s, endpoint, err = h.Create(s, Endpoint, network, "", ParseDoc(`{"Name": "porthole_ep", "IpConfigurations": [{"IpAddress": "10.244.1.2"}],
 "Routes": [{"NextHop": "0.0.0.0", "DestinationPrefix": "0.0.0.0/0"}], "SchemaVersion": {"Major": 2}}`))

	}
	if err != nil {
		t.Fatal(err)
	}
	return h, s, endpoint
}

func TestAttachingAgain(t *testing.T) {
	h, s, endpoint := attachHost(t, "ws2022")
	add := `{"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": "` + endpoint + `"}}`
	s, err := h.Modify(s, Namespace, hostNamespace(s), ParseDoc(add))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Modify(s, Namespace, hostNamespace(s), ParseDoc(add)); !errors.Is(err, ErrInNamespace) {
		t.Errorf("again by HCN: %v", err)
	}
	_, answer, err := h.HNSCall(s, ParseV1("POST", "/endpoints/"+endpoint+"/attach",
		`{"SystemType": "Host", "CompartmentId": 1}`))

	if !errors.Is(err, ErrAlreadyAttached) && !strings.Contains(answer, "already attached to the switch") {
		t.Errorf("again by the interface before HCN: %s, %v", answer, err)
	}
}

// A host that has just been set up may have no namespace of its own: one is made, or comes with an attachment.
func TestNoHostNamespace(t *testing.T) {
	h, s, endpoint := attachHost(t, "ws2022-fresh")
	if hostNamespace(s) != "" {
		t.Fatal("it has one")
	}
	made, id, err := h.Create(s, Namespace, "", "", ParseDoc(`{"Type": "HostDefault", "SchemaVersion": {"Major": 2}}`))
	if err != nil || hostNamespace(made) != id {
		t.Fatalf("made %q, %v", hostNamespace(made), err)
	}
	if o, _ := made.Get(Namespace, id); o.Doc.num("NamespaceId") != 1 {
		t.Errorf("it is not compartment 1: %s", o.Doc)
	}

	s, answer, err := h.HNSCall(s, ParseV1("POST", "/endpoints/"+endpoint+"/attach",
		`{"SystemType": "Host", "CompartmentId": 1}`))

	e, _ := s.Get(Endpoint, endpoint)
	if err != nil || e.Doc.str("HostComputeNamespace") != hostNamespace(s) || hostNamespace(s) == "" {
		t.Errorf("attached %s: %s, %v", e.Doc, answer, err)
	}
}

func TestOtherForm(t *testing.T) {
	for profile, want := range map[string]string{"ws2022": "10.244.1.1", "ws2022-form": "0.0.0.0"} {
		h, s, _ := attachHost(t, profile)
		text, err := h.Query(s, Network, s.List(Network)[0].ID, "{}")
		if err != nil || !strings.Contains(text, `"NextHop":"`+want+`"`) {
			t.Errorf("%s: %s, %v", profile, text, err)
		}
		if d := Desired(s); d.Networks[0].Subnets[0].Gateway.String() != "10.244.1.1" {
			t.Errorf("%s: carried with %v", profile, d.Networks[0].Subnets)
		}
	}
}

// A gateway of 0.0.0.0 is one to nowhere, except where HNS knows better.
func TestGatewayToNowhere(t *testing.T) {
	for profile, want := range map[string]string{"ws2022": "0.0.0.0", "ws2022-unkind": "10.244.1.1"} {
		_, s, _ := attachHost(t, profile)
		if d := Desired(s); d.Endpoints[0].Gateway.String() != want {
			t.Errorf("%s: gateway %v, want %s", profile, d.Endpoints[0].Gateway, want)
		}
	}
}

// Of several network cards HNS takes another than the one with the node's address, unless one is named.
func TestTwoUplinks(t *testing.T) {
	h, s, _ := attachHost(t, "ws2022")
	h.Uplinks, h.Adapters = []string{"eth0", "eth1"}, []string{"eth0", "eth1"}
	for policy, want := range map[string]string{"": "eth1",
		`, "Policies": [{"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "eth0"}}]`: "eth0"} {
		n, id, err := h.Create(s, Network, "", "", ParseDoc(
			`{"Name": "other", "Type": "L2Bridge", "SchemaVersion": {"Major": 2}`+policy+`}`))

		if err != nil {
			t.Fatal(err)
		}
		o, _ := n.Get(Network, id)
		if list := o.Doc.docs("Policies"); len(list) != 1 || list[0].doc("Settings").str("NetworkAdapterName") != want {
			t.Errorf("bound to %v, want %s", list, want)
		}
	}
	_, _, err := h.Create(s, Network, "", "", ParseDoc(
		`{"Name": "other", "Type": "L2Bridge", "Policies": [{"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "vEthernet (eth0)"}}], "SchemaVersion": {"Major": 2}}`))

	if !errors.Is(err, ErrAdapterNotFound) {
		t.Errorf("bound to a virtual adapter: %v", err)
	}
}
