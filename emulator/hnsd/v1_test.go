package hnsd

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/desired"
)

// TestV1Gateways makes an endpoint of both families by the interface before HCN, as hcsshim's HNSEndpoint has its
// fields. Readers of HCN documents and the data plane see the gateways of both. Its statistics are what the data plane
// has counted.
func TestV1Gateways(t *testing.T) {
	h, s, _ := attachHost(t, "ws2022")
	s, network, err := h.Create(s, Network, "", "", ParseDoc(`{"Name": "both", "Type": "L2Bridge", "SchemaVersion": {"Major": 2}, "Ipams": [{"Subnets": [
 {"IpAddressPrefix": "10.245.1.0/24", "Routes": [{"NextHop": "10.245.1.1", "DestinationPrefix": "0.0.0.0/0"}]},
 {"IpAddressPrefix": "fd00:245::/64", "Routes": [{"NextHop": "fd00:245::1", "DestinationPrefix": "::/0"}]}]}]}`))

	if err != nil {
		t.Fatal(err)
	}
	s, answer, err := h.HNSCall(s, ParseV1("POST", "/endpoints", `{"VirtualNetwork": "`+network+`", "Name": "pod", "IPAddress": "10.245.1.7", "PrefixLength": 24,
 "IPv6Address": "fd00:245::7", "IPv6PrefixLength": 64, "GatewayAddress": "10.245.1.1", "GatewayAddressV6": "fd00:245::1"}`))

	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Output struct{ ID string } }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.Output.ID == "" {
		t.Fatalf("%s: %v", answer, err)
	}

	id := strings.ToLower(made.Output.ID)
	h.Traffic = func(endpoint string) desired.Traffic {
		if endpoint != id {
			return desired.Traffic{}
		}
		return desired.Traffic{BytesSent: 11, PacketsSent: 12, BytesReceived: 13, PacketsReceived: 14,
			DroppedIncoming: 15, DroppedOutgoing: 16}
	}
	_, answer, err = h.HNSCall(s, ParseV1("GET", "/endpointstats/"+made.Output.ID, ""))
	var counted struct {
		Output struct {
			BytesSent, PacketsSent, BytesReceived, PacketsReceived int
			DroppedPacketsIncoming, DroppedPacketsOutgoing         int
			EndpointId                                             string
		}
	}
	if err := errors.Join(err, json.Unmarshal([]byte(answer), &counted)); err != nil {
		t.Fatal(err)
	}
	if o := counted.Output; !strings.EqualFold(o.EndpointId, id) || o.BytesSent != 11 || o.PacketsSent != 12 ||
		o.BytesReceived != 13 || o.PacketsReceived != 14 ||
		o.DroppedPacketsIncoming != 15 || o.DroppedPacketsOutgoing != 16 {
		t.Errorf("statistics of the endpoint: %s", answer)
	}

	text, err := h.Query(s, Endpoint, id, "{}")
	if err != nil || !strings.Contains(text, `"NextHop":"10.245.1.1"`) ||
		!strings.Contains(text, `"NextHop":"fd00:245::1"`) {
		t.Errorf("%s, %v", text, err)
	}
	for _, e := range Desired(s).Endpoints {
		if e.ID == id && (e.Gateway.String() != "10.245.1.1" || e.Gateway6.String() != "fd00:245::1") {
			t.Errorf("the data plane has the gateways %v and %v", e.Gateway, e.Gateway6)
		}
	}
}
