package serve

import (
	"fmt"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/hnsd"
)

// An endpoint is found by its id, the beginning of one, its name or an address, and a wrong text gets the list.
func TestFindEndpoint(t *testing.T) {
	profile, err := hnsd.ProfileOf(20348)
	must(t, err)
	ids := 0
	h := &hnsd.Host{Profile: profile, NodeAddr: "10.99.7.21", NewID: func() string {
		ids++
		return fmt.Sprintf("%08x-0000-4000-8000-000000000000", ids<<16)
	}}
	s, network, err := h.Create(hnsd.NewState(h.NewID()), hnsd.Network, "", "", hnsd.ParseDoc(`{"Name":"a","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/24",
 "Routes":[{"NextHop":"10.1.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`))

	must(t, err)
	var made []string
	for _, e := range []string{"web 10.1.0.7", "twin 10.1.0.8", "twin 10.1.0.70"} {
		name, addr, _ := strings.Cut(e, " ")
		var id string
		s, id, err = h.Create(s, hnsd.Endpoint, network, "", hnsd.ParseDoc(
			fmt.Sprintf(`{"Name":%q,"IpConfigurations":[{"IpAddress":%q}],"SchemaVersion":{"Major":2,"Minor":0}}`, name,
				addr)))

		must(t, err)
		made = append(made, id)
	}

	for text, want := range map[string]string{
		made[1]: made[1], "{" + strings.ToUpper(made[0]) + "}": made[0], made[2][:8]: made[2],
		"WEB": made[0], "10.1.0.7": made[0], "10.1.0.70": made[2],
		"twin": fmt.Sprintf("2 endpoints have the name or address \"twin\": choose one of %s, %s", made[1],
			made[2]),
		"10.1.0.9": fmt.Sprintf("no endpoint has the id, name or address \"10.1.0.9\": there are %s (web 10.1.0.7), ",
			made[0]),
	} {
		o, err := findEndpoint(s, text)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && o.ID != want {
			t.Errorf("%s: %v, %v, want %s", text, o, err, want)
		}
	}
	if _, err := findEndpoint(hnsd.NewState(h.NewID()), "web"); err == nil ||
		!strings.Contains(err.Error(), "HNS has no endpoints") {
		t.Errorf("without endpoints: %v", err)
	}
}
