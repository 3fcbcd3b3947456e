package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
)

const overlayNetwork = `{"Name":"flannel.4096","Type":"Overlay","Flags":8,"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.245.4.0/24",
 "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}],"Routes":[{"NextHop":"10.245.4.1","DestinationPrefix":"0.0.0.0/0"}]}]}],
 "Policies":[{"Type":"HostRoute"}],"SchemaVersion":{"Major":2,"Minor":0}}`

// The documents that flannel and upstream's kube-proxy send for an overlay become a tunnel, a way to the other host,
// and load balancers.
func TestOverlayDocuments(t *testing.T) {
	host := netspace.New(t, "overlay")
	plane, err := dataplane.New(dataplane.Options{Netns: host.Path})
	must(t, err)
	t.Cleanup(plane.Close)
	s := startServerOn(t, 20348, plane)
	c := s.connect("kube-proxy.exe", 1)
	network := c.good(wire.On(hnsd.Network, wire.Create), 0, "", overlayNetwork).handle
	var doc struct {
		Policies []struct {
			Type     string
			Settings map[string]any
		}
	}

	must(t, json.Unmarshal([]byte(c.good(wire.On(hnsd.Network, wire.Query), network, "").text), &doc))
	router := ""
	for _, p := range doc.Policies {
		if p.Type == "DrMacAddress" {
			router = strings.ToLower(strings.ReplaceAll(fmt.Sprint(p.Settings["Address"]), "-", ":"))
		}
	}

	route := `{"ResourceType":"Policy","RequestType":%q,"Settings":{"Policies":[{"Type":"RemoteSubnetRoute","Settings":{"IsolationId":4096,
	 "DistributedRouterMacAddress":"00-15-5D-11-00-05","ProviderAddress":"10.99.7.33","DestinationPrefix":"10.245.5.0/24"}}]}}`
	c.good(wire.On(hnsd.Network, wire.Modify), network, "", fmt.Sprintf(route, "Add"))
	provider := func(addr, mac, pa, flags string) string {
		return fmt.Sprintf(
			`{"IpConfigurations":[{"IpAddress":%q}],"MacAddress":%q,"Policies":[%s]%s,"SchemaVersion":{"Major":2,"Minor":0}}`, addr, mac, pa, flags)
	}
	pa := `{"Type":"ProviderAddress","Settings":{"ProviderAddress":%q}}`
	// the source address
	c.good(wire.On(hnsd.Endpoint, wire.Create), network, "", provider("10.245.4.2", "02:fc:00:00:00:01", "", ""))
	c.good(wire.On(hnsd.Endpoint, wire.Create), network, "",
		provider("10.96.0.10", "02:fc:00:00:00:01", fmt.Sprintf(pa, "10.99.7.21"), `,"Flags":1`))
	remote := c.idOf(hnsd.Endpoint,
		c.good(wire.On(hnsd.Endpoint, wire.Create), network, "",
			provider("10.245.5.7", "02-11-0a-f5-05-07", fmt.Sprintf(pa, "10.99.7.33"), `,"Flags":1`)).handle)
	sourced := strings.Replace(balancer("10.96.0.10", 80, remote), `"FrontendVIPs"`,
		`"SourceVIP":"10.245.4.2","FrontendVIPs"`, 1)
	c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", sourced)
	if a := c.call(wire.On(hnsd.LoadBalancer, wire.Create), 0, "",
		strings.Replace(balancer("fd96::1", 80, remote), `"FrontendVIPs"`, `"Flags":2,"FrontendVIPs"`,
			1)); a.result != 0x80070057 {
		t.Errorf("an IPv6 load balancer of an overlay: %#x %s", a.result, a.record)
	}
	drift, err := s.s.Verify(t.Context())
	must(t, err)
	if len(drift) > 0 {
		t.Errorf("drift: %v", drift)
	}
	show := func(command string) string {
		var out bytes.Buffer
		args := strings.Fields(command)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout = &out
		must(t, platform.StartInNetns(host.Path, cmd))
		must(t, cmd.Wait())
		return out.String()
	}

	for command, wants := range map[string][]string{
		"ip -d link show type vxlan": {"vxlan id 4096 local 10.99.7.21", "dstport 4789 ", " nolearning",
			"link/ether " + router},
		"ip route": {"10.245.5.0/24 via 10.245.5.0 dev hnsx"},
		"nft -s list table ip hns": {"snat to ct mark map @snats",
			"10.96.0.10 . tcp . 80 . 0x00000000 counter : 10.245.5.7 . 8080", ": 10.245.4.2"},
	} {
		out := show(command)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s has no %q:\n%s", command, want, out)
			}
		}
	}

	c.good(wire.On(hnsd.Network, wire.Modify), network, "", fmt.Sprintf(route, "Remove"))
	if out := show("ip route"); strings.Contains(out, "10.245.5.0") {
		t.Errorf("the way stayed:\n%s", out)
	}
}
