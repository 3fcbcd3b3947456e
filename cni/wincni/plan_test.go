package wincni

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

const namespace = "7f4c0000-0000-4000-8000-000000000001"

// seedHost has the network of the seed's configurations.
func seedHost() *hnstest.Fake {
	h := hnstest.New(hns.Version{Major: 9, Minor: 5}, hns.Network{ID: "net-1", Name: "l2bridge", Type: hns.L2Bridge,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.10.187.64/26"),
			Gateway: netip.MustParseAddr("10.10.187.65")}}})
	h.AddNamespace(namespace)
	return h
}

func plugin(h *hnstest.Fake) attach.Plugin {
	return attach.Plugin{Kind: Kind{}, Reader: h, Writer: h, Rules: hnstest.Rules{Fake: h}, WithoutNamespace: true}
}

// seed is a configuration of the seed, which keeps its addresses in a folder of the test.
func seed(t *testing.T, name string) *contract.Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := contract.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	c.IPAM = []byte(strings.Replace(string(c.IPAM), "{", fmt.Sprintf(`{"dataDir":%q,`, t.TempDir()), 1))
	return c
}

// Both configurations of the seed say the same: each endpoint has what they ask for, and the fields without effect are
// named.
// Row 1.61.
func TestSeed(t *testing.T) {
	for _, name := range []string{"seed-guide.json", "seed-handbook.json"} {
		h, c := seedHost(), seed(t, name)
		p := plugin(h)
		if _, err := p.Add(context.Background(),
			attach.Call{Container: "abc", Namespace: namespace, Interface: "eth0", Config: c}); err != nil {
			t.Fatal(err)
		}
		e, err := h.EndpointByName(context.Background(), "abc_l2bridge")
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%v %v %v\n", e.Addrs, e.Routes, e.DNS.Servers)
		for _, policy := range e.Policies {
			text += policy.Type + " " + string(policy.Settings) + "\n"
		}
		want := `[10.10.187.67] [{0.0.0.0/0 10.10.187.66}] [11.0.0.10]
OutBoundNAT {"Exceptions":["11.0.0.0/8","10.10.0.0/16","10.127.132.128/25"]}
SDNRoute {"DestinationPrefix":"11.0.0.0/8","NeedEncap":true}
SDNRoute {"DestinationPrefix":"10.127.132.213/32","NeedEncap":true}
`
		text = strings.Join(strings.Fields(text), " ")
		if diff := cmp.Diff(strings.Join(strings.Fields(want), " "),
			strings.ReplaceAll(strings.ReplaceAll(text, "[ ", "["), ", ", ",")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}

		warned := []string{`field "master" has no effect: the HNS network is bound to an adapter already`,
			`field "ipam.environment" has no effect: addresses are kept on the node`}
		equalLines(t, c.Warnings, warned)
		if len(c.Unknown) > 0 {
			t.Errorf("%s: unknown fields %v", name, c.Unknown)
		}
	}
}

func equalLines(t *testing.T, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestEndpoint(t *testing.T) {
	prefix := netip.MustParsePrefix("10.10.187.70/26")
	for name, c := range map[string]struct {
		config, namespace string
		route, gateway    string // of ipam
		wantGW            string
		wantSearch        string
		wantErr           string
	}{
		"the address after the subnet's": {wantGW: "10.10.187.65", wantSearch: "[]"},
		"ipam.gateway":                   {gateway: "10.10.187.99", wantGW: "10.10.187.99", wantSearch: "[]"},
		"routes[0].GW wins": {gateway: "10.10.187.99", route: "10.10.187.126", wantGW: "10.10.187.126",
			wantSearch: "[]"},
		"routes[0].GW elsewhere": {route: "10.0.0.1", wantErr: "10.10.187.64/26"},
		"a search domain": {config: `,"dns":{"Search":["svc.cluster.local","corp"]}`, namespace: "prod",
			wantGW:     "10.10.187.65",
			wantSearch: "[prod.svc.cluster.local corp]"},
		"the runtime's search domains": {
			config:    `,"dns":{"Search":["x"]},"runtimeConfig":{"dns":{"servers":["10.96.0.10"],"searches":["a.b"]}}`,
			namespace: "prod",
			wantGW:    "10.10.187.65", wantSearch: "[a.b]"},
		"a bridge's gateway is forced": {config: `,"optionalFlags":{"forceBridgeGateway":true}`, route: "10.10.187.126",
			wantGW: "10.10.187.66", wantSearch: "[]"},
	} {
		conf, err := contract.Parse([]byte(`{"name":"l2bridge"` + c.config + `}`))
		if err != nil {
			t.Fatal(err)
		}
		pod := attach.Pod{Config: conf, Namespace: c.namespace, Addresses: []ipam.Address{{Prefix: prefix}}}
		pod.RouteGateway, _ = netip.ParseAddr(c.route)
		pod.Addresses[0].Gateway, _ = netip.ParseAddr(c.gateway)

		e, err := Kind{}.Endpoint(pod)
		if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.wantErr)
		}
		if err != nil {
			continue
		}
		if gw := e.Routes[0].NextHop.String(); gw != c.wantGW || fmt.Sprint(e.DNS.Search) != c.wantSearch {
			t.Errorf("%s: gateway %s and search list %v, want %s and %s", name, gw, e.DNS.Search, c.wantGW,
				c.wantSearch)
		}
	}
}

// Runtimes from before HCN namespaces: only the call for the sandbox makes and deletes, later ones join.
func TestWithoutNamespace(t *testing.T) {
	ctx, h, c := context.Background(), seedHost(), seed(t, "seed-guide.json")
	p := plugin(h)
	sandbox := attach.Call{Container: "infra", Namespace: "none", Interface: "eth0", Config: c}
	joins := attach.Call{Container: "app", Namespace: "container:infra", Interface: "eth0", Config: c}

	if _, err := p.Add(ctx, joins); err == nil || !strings.Contains(err.Error(), "which has no endpoint") ||
		h.Dump() != "" {
		t.Errorf("a container before its sandbox: %v, made %s", err, h.Dump())
	}
	first, err := p.Add(ctx, sandbox)
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Add(ctx, joins)
	if diff := cmp.Diff(first, second); err != nil || diff != "" || h.Count("create endpoint") != 1 {
		t.Errorf("the container: %v, %d endpoints made\n%s", err, h.Count("create endpoint"), diff)
	}
	if err := p.Check(ctx, joins); err != nil {
		t.Errorf("CHECK of the container: %v", err)
	}

	if err := p.Del(ctx, joins); err != nil || h.Dump() == "" {
		t.Errorf("DEL of the container: %v, left %q", err, h.Dump())
	}
	if err := p.Del(ctx, sandbox); err != nil || h.Dump() != "" {
		t.Errorf("DEL of the sandbox: %v, left %q", err, h.Dump())
	}
	for _, bad := range []string{"container:", "host", ""} {
		if _, err := p.Add(ctx, attach.Call{Container: "x", Namespace: bad, Interface: "eth0",
			Config: c}); err == nil || h.Dump() != "" {
			t.Errorf("CNI_NETNS %q: %v", bad, err)
		}
	}
}
