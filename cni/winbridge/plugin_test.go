package winbridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

const ns1 = "7f4c0000-0000-4000-8000-000000000001"

var bridge = hns.Network{ID: "net-1", Name: "porthole", Type: hns.L2Bridge, Subnets: []hns.Subnet{{
	Prefix: netip.MustParsePrefix("10.244.2.0/24"), Gateway: netip.MustParseAddr("10.244.2.1"),
}}}

func config(t *testing.T, dir, extra string) *contract.Config {
	t.Helper()
	c, err := contract.Parse([]byte(fmt.Sprintf(`{"cniVersion":"1.0.0","name":"porthole","type":"win-bridge",
		"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.244.2.0/24","rangeStart":"10.244.2.3"}]]}%s}`, dir, extra)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newHost() *hnstest.Fake {
	h := hnstest.New(hns.Version{Major: 13, Minor: 3}, bridge)
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
	p, c := &Plugin{Host: h}, config(t, dir, "")
	first, err := p.Add(ctx, call(c))
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(first)
	want := `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"` + ns1 + `"}],"ips":[{"address":"10.244.2.3/24","gateway":"10.244.2.2","interface":0}]}`
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

func TestFailedAddLeavesNothing(t *testing.T) {
	for _, kind := range []string{"find network", "find endpoint", "create endpoint", "add endpoint"} {
		dir, h := t.TempDir(), newHost()
		h.SetFault(func(k string) hnstest.Outcome {
			if k == kind {
				return hnstest.Fail
			}
			return hnstest.Work
		})
		p, c := &Plugin{Host: h}, config(t, dir, "")
		if _, err := p.Add(context.Background(), call(c)); err == nil {
			t.Errorf("%s: ADD succeeded", kind)
		}
		h.SetFault(nil)
		if err := p.Del(context.Background(), call(c)); err != nil || h.Dump() != "" || len(files(t, dir)) != 0 {
			t.Errorf("%s: after DEL: %v %s %v", kind, err, h.Dump(), files(t, dir))
		}
	}
}

func TestStaleEndpointHoldsAddress(t *testing.T) {
	dir, h := t.TempDir(), newHost()
	h.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		*eps = append(*eps, hns.Endpoint{ID: "old", Name: "dead_porthole", Network: "net-1", Namespace: "gone",
			Addrs: []netip.Addr{netip.MustParseAddr("10.244.2.3")}})
	})
	p, c := &Plugin{Host: h}, config(t, dir, "")
	if _, err := p.Add(context.Background(), call(c)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("endpoint local 10.244.2.3 \"abc_porthole\"\n", h.Dump()); diff != "" {
		t.Error(diff)
	}
}

func TestGC(t *testing.T) {
	ctx, dir, h := context.Background(), t.TempDir(), newHost()
	p, c := &Plugin{Host: h}, config(t, dir, "")
	if _, err := p.Add(ctx, call(c)); err != nil {
		t.Fatal(err)
	}
	h.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		*eps = append(*eps, hns.Endpoint{ID: "host", Name: "porthole_ep", Network: "net-1", Addrs: []netip.Addr{netip.MustParseAddr("10.244.2.2")}})
	})
	if err := p.GC(ctx, c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("endpoint local 10.244.2.2 \"porthole_ep\"\n", h.Dump()); diff != "" || len(files(t, dir)) != 0 {
		t.Error(diff, files(t, dir))
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"v1 spelling", `,"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","ExceptionList":["10.244.0.0/16"]}},
			{"name":"endpointpolicy","value":{"Type":"ROUTE","DestinationPrefix":"10.96.0.0/16","NeedEncap":true}}]`,
			`OutBoundNAT {"Exceptions":["10.244.0.0/16"]}; SDNRoute {"DestinationPrefix":"10.96.0.0/16","NeedEncap":true}`},
		{"v2 spelling, capitals", `,"Policies":[{"Name":"EndpointPolicy","Value":{"type":"SDNROUTE","settings":{"destinationPrefix":"10.96.0.0/16"}}}]`,
			`SDNRoute {"DestinationPrefix":"10.96.0.0/16"}`},
		{"masquerade network joins", `,"ipMasqNetwork":"10.244.0.0/16","policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","Settings":{"ExceptionList":["10.96.0.0/16"]}}}]`,
			`OutBoundNAT {"Exceptions":["10.96.0.0/16","10.244.0.0/16"]}`},
		{"masquerade network alone", `,"ipMasqNetwork":"10.244.0.0/16"`, `OutBoundNAT {"Exceptions":["10.244.0.0/16"]}`},
		{"host ports and loopback", `,"loopbackDSR":true,"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}`,
			`PortMapping {"Protocol":6,"InternalPort":80,"ExternalPort":8080,"VIP":""}; OutBoundNAT {"Destinations":["10.244.2.7"]}`},
		{"wincni's arguments", `,"AdditionalArgs":[{"Name":"EndpointPolicy","Value":{"Type":"ACL","Action":"Block"}}]`, `ACL {"Action":"Block"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := policies(config(t, t.TempDir(), c.config), netip.MustParseAddr("10.244.2.7"), hns.Version{Major: 13, Minor: 3})
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
