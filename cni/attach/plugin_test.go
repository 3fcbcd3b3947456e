package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

const ns1 = "7f4c0000-0000-4000-8000-000000000001"

var testNetwork = hns.Network{ID: "net-1", Name: "porthole", Type: "Transparent", Subnets: []hns.Subnet{{
	Prefix: netip.MustParsePrefix("10.244.2.0/24"), Gateway: netip.MustParseAddr("10.244.2.1"),
}}}

// transparent is a whole kind: a plugin for it is this and a main function.
type transparent struct{}

func (transparent) Accepts(network hns.Network) error {
	if network.Type != "Transparent" {
		return fmt.Errorf("network %s is of type %s", network.Name, network.Type)
	}
	return nil
}

func (transparent) Endpoint(pod Pod) (hns.Endpoint, error) {
	policies, err := Policies(pod)
	addrs, bits := Addrs(pod)
	return hns.Endpoint{
		Addrs: addrs, PrefixLen: bits, Policies: policies, DNS: DNS(pod.Config),
		Routes: []hns.Route{DefaultRoute(pod.Network.Subnets[0].Gateway)},
	}, err
}

func plugin(h *hnstest.Fake) *Plugin {
	return &Plugin{Kind: transparent{}, Reader: h, Writer: h, Rules: hnstest.Rules{Fake: h}}
}

func config(t *testing.T, dir, extra string) *contract.Config {
	t.Helper()
	c, err := contract.Parse([]byte(fmt.Sprintf(`{"cniVersion":"1.0.0","name":"porthole","type":"test",
		"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.244.2.0/24","rangeStart":"10.244.2.3"}]]}%s}`, dir, extra)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newHost() *hnstest.Fake {
	h := hnstest.New(hns.Version{Major: 13, Minor: 3}, testNetwork)
	h.AddNamespace(ns1)
	return h
}

func call(c *contract.Config) Call {
	return Call{Container: "abc", Namespace: strings.ToUpper(ns1), Interface: "eth0", Config: c}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "porthole"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err == nil {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestLife(t *testing.T) {
	ctx, dir, h := context.Background(), t.TempDir(), newHost()
	p, c := plugin(h), config(t, dir, "")
	first, err := p.Add(ctx, call(c))
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(first)
	want := `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"` + ns1 +
		`"}],"ips":[{"address":"10.244.2.3/24","gateway":"10.244.2.1","interface":0}]}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}

	c.PrevResult = data
	if err := p.Check(ctx, call(c)); err != nil {
		t.Errorf("check: %v", err)
	}
	again, err := p.Add(ctx, call(c))
	if err != nil || h.Count("create endpoint") != 1 {
		t.Errorf("second ADD: %v, %d endpoints made", err, h.Count("create endpoint"))
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("second ADD answers otherwise:\n%s", diff)
	}

	// DEL with HNS away: the address must stay.
	h.SetFault(func(string) hnstest.Outcome { return hnstest.Fail })
	if err := p.Del(ctx, call(c)); err == nil || len(files(t, dir)) != 1 {
		t.Errorf("DEL without HNS: %v, addresses %v", err, files(t, dir))
	}

	h.SetFault(nil)
	for range 2 {
		if err := p.Del(ctx, call(c)); err != nil {
			t.Errorf("DEL: %v", err)
		}
	}
	if h.Dump() != "" || len(files(t, dir)) != 0 {
		t.Errorf("left over: %s %v", h.Dump(), files(t, dir))
	}
	if err := p.Check(ctx, call(c)); !hns.IsAbsent(err) {
		t.Errorf("CHECK after DEL: %v", err)
	}
}

// calls are the calls to HNS that ADD makes, and DEL after it.
var calls = []string{"read version", "find network", "find endpoint", "create endpoint", "add endpoint",
	"read endpoint", "remove endpoint", "delete endpoint"}

func only(kind string, how hnstest.Outcome) func(string) hnstest.Outcome {
	return func(k string) hnstest.Outcome {
		if k == kind {
			return how
		}
		return hnstest.Work
	}
}

// Each call to HNS fails in turn, before or after it has done its work. What a failed ADD leaves, DEL removes; the
// address of an endpoint that may be there is never free.
func TestEveryCallFailsInTurn(t *testing.T) {
	ctx := context.Background()
	for _, kind := range calls {
		for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail} {
			dir, h := t.TempDir(), newHost()
			p, c := plugin(h), config(t, dir, `,"loopbackDSR":true`)
			h.SetFault(only(kind, how))
			_, err := p.Add(ctx, call(c))
			failed := err != nil
			// which is absent, whether HNS answers late or not
			if failed != (h.Count(kind) > 0) && kind != "find endpoint" {
				t.Errorf("ADD while %q fails: %v", kind, err)
			}
			held := h.Dump() != ""
			if addresses := len(files(t, dir)); held && addresses == 0 {
				t.Errorf("ADD while %q fails: an endpoint is there and its address is free", kind)
			}

			// DEL meets the same fault: what it cannot remove it leaves whole, and a later one removes it.
			if err := p.Del(ctx, call(c)); err != nil && h.Dump() != "" && len(files(t, dir)) == 0 {
				t.Errorf("DEL while %q fails: %v, and the address is free", kind, err)
			}
			h.SetFault(nil)
			if err := p.Del(ctx, call(c)); err != nil || h.Dump() != "" || len(files(t, dir)) != 0 {
				t.Errorf("DEL after %q failed: %v, left %s%v", kind, err, h.Dump(), files(t, dir))
			}
		}
	}
}

// A call that HNS refuses is known not to be done: ADD takes back what it made by itself.
func TestRefusedAddLeavesNothing(t *testing.T) {
	refused := &hns.Error{Doing: "create endpoint", Class: hns.Unsupported, Code: 0x803b0015,
		Err: errors.New("refused")}
	dir, h := t.TempDir(), newHost()
	h.Refuse = func(string, *hns.Endpoint, *hns.LoadBalancer) error { return refused }
	if _, err := plugin(h).Add(context.Background(), call(config(t, dir, ""))); !errors.Is(err, refused) {
		t.Errorf("ADD: %v", err)
	}
	if h.Dump() != "" || len(files(t, dir)) != 0 {
		t.Errorf("left %s%v", h.Dump(), files(t, dir))
	}

	// The namespace is gone: the endpoint is taken back.
	h.Refuse = nil
	h.EditNamespaces(func(all *[]hns.Namespace) { *all = nil })
	if _, err := plugin(h).Add(context.Background(), call(config(t, dir, ""))); !hns.IsAbsent(err) {
		t.Errorf("ADD: %v", err)
	}
	if h.Dump() != "" || len(files(t, dir)) != 0 {
		t.Errorf("left %s%v", h.Dump(), files(t, dir))
	}
}

// With one call in ten failing, ADD and DEL succeed when they are repeated, as runtimes do, and nothing is left.
func TestOneCallInTenFails(t *testing.T) {
	ctx, failures := context.Background(), 0
	for seed := range uint64(100) {
		dir, h := t.TempDir(), newHost()
		p, c := plugin(h), config(t, dir, `,"loopbackDSR":true`)
		h.SetFault(hnstest.OneIn(10, seed, hnstest.DoThenFail))
		repeat := func(what string, do func() error) {
			for range 20 {
				if do() == nil {
					return
				}
				failures++
			}
			t.Errorf("seed %d: %s never succeeded", seed, what)
		}

		repeat("ADD", func() error { _, err := p.Add(ctx, call(c)); return err })
		if len(files(t, dir)) != 1 || strings.Count(h.Dump(), "\n") != 1 {
			t.Errorf("seed %d: after ADD %s%v", seed, h.Dump(), files(t, dir))
		}
		repeat("DEL", func() error { return p.Del(ctx, call(c)) })
		if h.Dump() != "" || len(files(t, dir)) != 0 {
			t.Errorf("seed %d: left %s%v", seed, h.Dump(), files(t, dir))
		}
	}
	if failures < 50 {
		t.Errorf("only %d calls failed", failures)
	}
}

// stale makes HNS have an endpoint at the first address of the range, of a pod that is gone.
func stale(h *hnstest.Fake, namespace hns.NamespaceID) {
	h.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		*eps = append(*eps, hns.Endpoint{ID: "old", Name: "dead_porthole", Network: "net-1", Namespace: namespace,
			Addrs: []netip.Addr{netip.MustParseAddr("10.244.2.3")}})
	})
}

func TestStaleEndpointHoldsAddress(t *testing.T) {
	dir, h := t.TempDir(), newHost()
	stale(h, "gone")
	if _, err := plugin(h).Add(context.Background(), call(config(t, dir, ""))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("endpoint local 10.244.2.3 \"abc_porthole\"\n", h.Dump()); diff != "" {
		t.Error(diff)
	}
}

// An endpoint whose namespace is there, or of which HNS does not say whether it is, stays.
func TestEndpointInUseStays(t *testing.T) {
	for name, c := range map[string]struct {
		namespace hns.NamespaceID
		fault     string
	}{
		"its namespace is there":            {ns1, ""},
		"its namespace cannot be looked up": {"gone", "find namespace"},
		"endpoints cannot be listed":        {"gone", "list endpoints"},
	} {
		dir, h := t.TempDir(), newHost()
		stale(h, c.namespace)
		h.SetFault(only(c.fault, hnstest.Fail))
		if _, err := plugin(h).Add(context.Background(), call(config(t, dir, ""))); err == nil {
			t.Errorf("%s: ADD succeeded", name)
		}
		if got := h.Dump(); got != "endpoint local 10.244.2.3 \"dead_porthole\"\n" || len(files(t, dir)) != 0 {
			t.Errorf("%s: left %s%v", name, got, files(t, dir))
		}
	}
}

// Row 1.60.
func TestGC(t *testing.T) {
	ctx, dir, h := context.Background(), t.TempDir(), newHost()
	p, c := plugin(h), config(t, dir, "")
	if _, err := p.Add(ctx, call(c)); err != nil {
		t.Fatal(err)
	}
	h.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		*eps = append(*eps, hns.Endpoint{ID: "host", Name: "porthole_ep", Network: "net-1",
			Addrs: []netip.Addr{netip.MustParseAddr("10.244.2.2")}})
	})
	if err := p.GC(ctx, c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("endpoint local 10.244.2.2 \"porthole_ep\"\n", h.Dump()); diff != "" ||
		len(files(t, dir)) != 0 {
		t.Error(diff, files(t, dir))
	}
}

// While a call fails, GC leaves an address with an endpoint that it could not remove; a later GC removes both.
func TestGCWithFaults(t *testing.T) {
	ctx := context.Background()
	for _, kind := range []string{"find network", "list endpoints", "remove endpoint", "delete endpoint"} {
		for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail} {
			dir, h := t.TempDir(), newHost()
			p, c := plugin(h), config(t, dir, "")
			if _, err := p.Add(ctx, call(c)); err != nil {
				t.Fatal(err)
			}

			h.SetFault(only(kind, how))
			if err := p.GC(ctx, c); err == nil {
				t.Errorf("GC succeeds while %q fails", kind)
			}
			if h.Dump() != "" && len(files(t, dir)) == 0 {
				t.Errorf("GC while %q fails frees the address of an endpoint that is there", kind)
			}

			h.SetFault(nil)
			if err := p.GC(ctx, c); err != nil || h.Dump() != "" || len(files(t, dir)) != 0 {
				t.Errorf("GC after %q failed: %v, left %s%v", kind, err, h.Dump(), files(t, dir))
			}
		}
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"v1 spelling", `,"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","ExceptionList":["10.244.0.0/16"]}},
			{"name":"endpointpolicy","value":{"Type":"ROUTE","DestinationPrefix":"10.96.0.0/16","NeedEncap":true}}]`,
			`OutBoundNAT {"Exceptions":["10.244.0.0/16"]}; SDNRoute {"DestinationPrefix":"10.96.0.0/16","NeedEncap":true}`},
		{"v2 spelling, capitals",
			`,"Policies":[{"Name":"EndpointPolicy","Value":{"type":"SDNROUTE","settings":{"destinationPrefix":"10.96.0.0/16"}}}]`,
			`SDNRoute {"DestinationPrefix":"10.96.0.0/16"}`},
		{"masquerade network joins",
			`,"ipMasqNetwork":"10.244.0.0/16","policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","Settings":{"ExceptionList":["10.96.0.0/16"]}}}]`,
			`OutBoundNAT {"Exceptions":["10.96.0.0/16","10.244.0.0/16"]}`},
		{"masquerade network alone", `,"ipMasqNetwork":"10.244.0.0/16"`,
			`OutBoundNAT {"Exceptions":["10.244.0.0/16"]}`},
		{"host ports and loopback",
			`,"loopbackDSR":true,"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}`,
			`PortMapping {"Protocol":6,"InternalPort":80,"ExternalPort":8080,"VIP":""}; OutBoundNAT {"Destinations":["10.244.2.7"]}`},
		{"wincni's arguments", `,"AdditionalArgs":[{"Name":"EndpointPolicy","Value":{"Type":"ACL","Action":"Block"}}]`,
			`ACL {"Action":"Block"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Policies(Pod{Config: config(t, t.TempDir(), c.config), HNS: hns.Version{Major: 13, Minor: 3},
				Addresses: []ipam.Address{{Prefix: netip.MustParsePrefix("10.244.2.7/24")}}})
			if err != nil {
				t.Fatal(err)
			}

			var texts []string
			for _, p := range got {
				texts = append(texts, p.Type+" "+string(p.Settings))
			}
			if diff := cmp.Diff(c.want, strings.Join(texts, "; ")); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongNetwork(t *testing.T) {
	ctx, dir, h := context.Background(), t.TempDir(), newHost()
	p, c := plugin(h), config(t, dir, "")
	for name, change := range map[string]func(*hns.Network){
		"is of type Private": func(n *hns.Network) { n.Type = "Private" },
		"has no subnet":      func(n *hns.Network) { n.Subnets = nil },
	} {
		h.Edit(func(_ *[]hns.Endpoint, _ *[]hns.LoadBalancer, networks *[]hns.Network) {
			*networks = []hns.Network{testNetwork}
			change(&(*networks)[0])
		})
		_, err := p.Add(ctx, call(c))
		for what, err := range map[string]error{"ADD": err, "CHECK": p.Check(ctx, call(c)), "STATUS": p.Status(ctx, c),
			"GC": p.GC(ctx, c)} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of a network that %s: %v", what, name, err)
			}
		}
	}
}

// A network that HNS does not have is named together with those that it has.
// Row 1.38.
func TestUnknownNetwork(t *testing.T) {
	h := newHost()
	other := testNetwork
	other.ID, other.Name, other.Type = "5e8a77a3-0000-0000-0000-000000000002", "nat", "NAT"
	for want, networks := range map[string][]hns.Network{
		`HNS has none called "porthole": it has "Porthole-old" (Transparent), "nat" (NAT)`: {other,
			testNetwork},
		`HNS has none called "porthole", nor any other: ` + "`porthole routes` makes that of the cluster": nil,
	} {
		h.Edit(func(_ *[]hns.Endpoint, _ *[]hns.LoadBalancer, list *[]hns.Network) {
			*list = slices.Clone(networks)
			for i := range *list {
				if (*list)[i].Name == "porthole" {
					(*list)[i].Name = "Porthole-old"
				}
			}
		})
		p, c := plugin(h), config(t, t.TempDir(), "")
		_, err := p.Add(t.Context(), call(c))
		for what, err := range map[string]error{"ADD": err, "CHECK": p.Check(t.Context(), call(c)),
			"STATUS": p.Status(t.Context(), c)} {
			if err == nil || !strings.Contains(err.Error(), want) || !hns.IsAbsent(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func valid(container string) types.GCAttachment {
	return types.GCAttachment{ContainerID: container, IfName: "eth0"}
}
