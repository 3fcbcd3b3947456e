package attach

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"porthole.dev/porthole/hns"
)

const withPolicies = `,"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","ExceptionList":["10.244.0.0/16"]}},
	{"name":"EndpointPolicy","value":{"Type":"ROUTE","DestinationPrefix":"10.96.0.0/16","NeedEncap":true}}]`

// HNS accepts an endpoint and does not keep all of its policies: ADD adds the missing ones once, and fails if HNS does
// not keep them then. An endpoint without a state is no failure.
func TestRulesInForce(t *testing.T) {
	never := func(hns.Policy) bool { return false }
	for name, c := range map[string]struct {
		drop  func(t *testing.T) func(hns.Policy) bool
		state hns.EndpointState
		want  string // part of the error
		added int
	}{
		"nothing is missing": {func(*testing.T) func(hns.Policy) bool { return never },
			hns.EndpointAttached, "", 0},
		"a state is not given": {func(*testing.T) func(hns.Policy) bool { return never }, 0, "", 0},
		"no container has started": {func(*testing.T) func(hns.Policy) bool { return never },
			hns.EndpointCreated, "", 0},
		"degraded": {func(*testing.T) func(hns.Policy) bool { return never },
			hns.EndpointDegraded, "degraded", 0},
		"one policy is lost once": {once("SDNRoute"), hns.EndpointAttached, "", 1},
		"one policy is lost again and again": {always("SDNRoute"), hns.EndpointAttached,
			`is without policy SDNRoute {"DestinationPrefix":"10.96.0.0/16","NeedEncap":true}`, 1},
	} {
		dir, h := t.TempDir(), newHost()
		h.Drop = c.drop(t)
		h.NewState = c.state

		_, err := plugin(h).Add(context.Background(), call(config(t, dir, withPolicies)))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: ADD: %v, want an error with %q", name, err, c.want)
		}
		if n := h.Count("add policies"); n != c.added {
			t.Errorf("%s: policies were added %d times, want %d", name, n, c.added)
		}
		if left := h.Dump() != "" || len(files(t, dir)) > 0; left != (c.want == "") {
			t.Errorf("%s: left %s%v", name, h.Dump(), files(t, dir))
		}
	}
}

func once(kind string) func(*testing.T) func(hns.Policy) bool {
	return func(*testing.T) func(hns.Policy) bool {
		done := false
		return func(p hns.Policy) bool {
			drop := p.Type == kind && !done
			done = done || drop
			return drop
		}
	}
}

func always(kind string) func(*testing.T) func(hns.Policy) bool {
	return func(*testing.T) func(hns.Policy) bool { return func(p hns.Policy) bool { return p.Type == kind } }
}

// A policy that another program put on our endpoint stays at a second ADD, at CHECK and at GC. One of ours that is
// lost is added again by ADD. CHECK names it in its error and changes nothing.
// Row 1.57.
func TestForeignPoliciesStay(t *testing.T) {
	ctx, dir, h := context.Background(), t.TempDir(), newHost()
	p, c := plugin(h), config(t, dir, withPolicies)
	if _, err := p.Add(ctx, call(c)); err != nil {
		t.Fatal(err)
	}
	foreign := hns.Policy{Type: "ACL", Settings: json.RawMessage(`{"Action":"Block","Direction":"In","Priority":200}`)}
	h.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		(*eps)[0].Policies = []hns.Policy{foreign, (*eps)[0].Policies[0]} // and the route is gone
	})

	if err := p.Check(ctx, call(c)); err == nil || !strings.Contains(err.Error(), "without policy SDNRoute") ||
		h.Count("add policies") > 0 {
		t.Errorf("CHECK: %v", err)
	}
	if _, err := p.Add(ctx, call(c)); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(ctx, call(c)); err != nil {
		t.Errorf("CHECK after ADD: %v", err)
	}
	c.ValidAttachments = append(c.ValidAttachments, valid("abc"))
	if err := p.GC(ctx, c); err != nil {
		t.Fatal(err)
	}
	e, err := h.EndpointByName(ctx, "abc_porthole")
	if err != nil || policyNames(e.Policies[:1]) != policyNames([]hns.Policy{foreign}) || len(e.Policies) != 3 {
		t.Errorf("the endpoint has %s: %v", policyNames(e.Policies), err)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		have, want string
		covers     bool
	}{
		{`{"destinationPrefix":"10.96.0.0/16","needEncap":true,"AutomaticEndpointMonitor":{}}`,
			`{"DestinationPrefix":"10.96.0.0/16","NeedEncap":true}`, true},
		{`{"DestinationPrefix":"10.96.0.0/16"}`, `{"DestinationPrefix":"10.96.0.0/16","NeedEncap":true}`, false},
		{`{"Protocol":"6","ExternalPort":80}`, `{"Protocol":6,"ExternalPort":80,"VIP":""}`, true},
		{`{"MaximumOutgoingBandwidthInBytes":12500000}`, `{"MaximumOutgoingBandwidthInBytes":"12500000"}`, true},
		{`{"MaximumOutgoingBandwidthInBytes":12500001}`, `{"MaximumOutgoingBandwidthInBytes":"12500000"}`, false},
		{`{"Protocol":17,"ExternalPort":80}`, `{"Protocol":6,"ExternalPort":80}`, false},
		{`{"Exceptions":["b","a"]}`, `{"Exceptions":["a"]}`, true},
		{`{"Exceptions":["b"]}`, `{"Exceptions":["a"]}`, false},
		{`{}`, `{"Exceptions":[]}`, true},
		{``, `{}`, true},
	} {
		if got := covers(json.RawMessage(c.have), json.RawMessage(c.want)); got != c.covers {
			t.Errorf("%s covers %s: %v", c.have, c.want, got)
		}
	}
}

// The error names the endpoint that has the host port.
func TestHostPortTaken(t *testing.T) {
	h := newHost()
	h.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		*eps = append(*eps, hns.Endpoint{ID: "e", Name: "first_porthole", Network: "net-1",
			Policies: []hns.Policy{{Type: "PortMapping",
				Settings: json.RawMessage(`{"Protocol":17,"ExternalPort":5353,"InternalPort":53}`)}}})
	})
	h.Refuse = func(string, *hns.Endpoint, *hns.LoadBalancer) error {
		return &hns.Error{Doing: "create endpoint", Class: hns.Exists, Code: hns.CodePortExists}
	}
	for ports, want := range map[string]string{
		`{"hostPort":5353,"containerPort":53,"protocol":"UDP"}`: "host port 5353/udp is taken by endpoint first_porthole",
		`{"hostPort":5353,"containerPort":53,"protocol":"TCP"}`: "one of the host ports 5353/tcp is taken by a load balancer",
	} {
		dir := t.TempDir()
		_, err := plugin(h).Add(context.Background(),
			call(config(t, dir, `,"runtimeConfig":{"portMappings":[`+ports+`]}`)))
		if err == nil || !strings.Contains(err.Error(), want) || len(files(t, dir)) > 0 {
			t.Errorf("%s: %v, want %q", ports, err, want)
		}
	}
}
