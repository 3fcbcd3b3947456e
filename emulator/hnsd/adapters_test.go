package hnsd

import (
	"fmt"
	"testing"
)

// A virtual switch on a card takes its IP over, and gives it back when it goes.
func TestHostAdapters(t *testing.T) {
	h, s, endpoint := attachHost(t, "ws2022")
	cards := []Card{{Name: "Ethernet", Link: 2}, {Name: "Ethernet 2", Link: 5}}
	fresh := HostAdapters(NewState(""), cards)
	s, err := h.Modify(s, Namespace, hostNamespace(s), ParseDoc(
		`{"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": "`+endpoint+`"}}`))

	if err != nil {
		t.Fatal(err)
	}
	switched := HostAdapters(s, cards)

	for _, c := range []struct {
		what string
		list []Adapter
		want string
	}{
		{"without a switch", fresh, `"Ethernet 2" [], "Ethernet" []`},
		{"with one", switched,
			`"vEthernet (porthole_ep)" [10.244.1.2], "vEthernet (Ethernet)" [], "Ethernet 2" [], "Ethernet" without IP`},
	} {
		got, indexes, guids := "", map[int]bool{}, map[string]bool{}
		for i, a := range c.list {
			if i > 0 {
				got += ", "
			}
			if got += fmt.Sprintf("%q %v", a.Alias, a.Addrs); a.Unbound {
				got = got[:len(got)-len("[]")] + "without IP"
			}
			indexes[a.Index], guids[a.GUID] = true, true
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if len(indexes) != len(c.list) || len(guids) != len(c.list) {
			t.Errorf("%s: indexes %v, GUIDs %v", c.what, indexes, guids)
		}
	}
}
