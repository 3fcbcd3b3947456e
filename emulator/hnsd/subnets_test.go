package hnsd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestUniqueSubnets has the cases of hns/hnstest's TestCreateNetwork: the fake and this profile agree.
func TestUniqueSubnets(t *testing.T) {
	network := func(name string, subnets ...string) string {
		list := make([]string, len(subnets))
		for i, s := range subnets {
			list[i] = fmt.Sprintf(`{"IpAddressPrefix":%q}`, s)
		}
		return fmt.Sprintf(
			`{"Name":%q,"Type":"L2Bridge","Ipams":[{"Subnets":[%s]}],"SchemaVersion":{"Major":2,"Minor":0}}`, name,
			strings.Join(list, ","))
	}

	for _, c := range []struct {
		profile, second string
		want            error
	}{
		{"ws2022-subnets", network("b", "10.2.0.0/24"), nil},
		{"ws2022-subnets", network("b", "10.2.0.0/24", "fd00:2::/64"), nil},
		{"ws2022-subnets", network("b", "10.1.0.128/25"), ErrInvalidSubnet},
		{"ws2022-subnets", network("b", "10.2.0.0/16", "10.2.3.0/24"), ErrInvalidSubnet},
		{"ws2022-subnets", network("b", "0.0.0.0/0"), ErrInvalidSubnet},
		{"ws2022", network("b", "10.1.0.128/25"), nil},
	} {
		profile, err := ProfileNamed(c.profile)
		if err != nil {
			t.Fatal(err)
		}

		ids := 0
		h := &Host{Profile: profile, NodeAddr: "10.99.7.21", NewID: func() string {
			ids++
			return fmt.Sprintf("00000000-0000-4000-8000-%012x", ids)
		}}
		s, _, err := h.Create(NewState(h.NewID()), Network, "", "", ParseDoc(network("a", "10.1.0.0/24")))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Create(s, Network, "", "", ParseDoc(c.second)); !errors.Is(err, c.want) {
			t.Errorf("%s, %s: %v, want %v", c.profile, c.second, err, c.want)
		}
	}
}

// TestVirtualSubnets: Windows takes the numbers 4096 to 16777214.
// Row 1.45.
func TestVirtualSubnets(t *testing.T) {
	for number, want := range map[int]error{1: ErrInvalidParameter, 4095: ErrInvalidParameter, 4096: nil,
		1<<24 - 2: nil, 1<<24 - 1: ErrInvalidParameter} {
		profile, err := ProfileOf(20348)
		if err != nil {
			t.Fatal(err)
		}
		h := &Host{Profile: profile, NodeAddr: "10.99.7.21",
			NewID: func() string { return "00000000-0000-4000-8000-000000000001" }}
		document := fmt.Sprintf(`{"Name":"a","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/24",
		 "Policies":[{"Type":"VSID","Settings":{"IsolationId":%d}}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`, number)
		_, _, err = h.Create(NewState(h.NewID()), Network, "", "", ParseDoc(document))
		var got *Error
		if want == nil && err != nil || want != nil && (!errors.As(err, &got) || got.Code != ErrInvalidParameter.Code) {
			t.Errorf("VSID %d: %v, want %v", number, err, want)
		}
	}
}
