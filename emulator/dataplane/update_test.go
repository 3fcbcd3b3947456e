package dataplane

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/emulator/desired"
)

// netID is the network of most tests.
const netID = "11111111-0000-0000-0000-000000000001"

// churn makes random changes: load balancers and remote endpoints come, change and go.
type churn struct {
	rnd     *rand.Rand
	desired desired.State
	serial  int
}

func (c *churn) addr() netip.Addr {
	return netip.AddrFrom4([4]byte{10, 244, byte(3 + c.rnd.IntN(3)), byte(1 + c.rnd.IntN(200))})
}

func (c *churn) remote() desired.Endpoint {
	e := desired.Endpoint{ID: fmt.Sprint("r", c.serial), Network: netID, Remote: true,
		Addrs: []netip.Prefix{netip.PrefixFrom(c.addr(), 32)}}
	if c.rnd.IntN(2) == 0 {
		e.Addrs = append(e.Addrs, netip.MustParsePrefix(fmt.Sprintf("fd00:3::%x/128", c.serial)))
	}
	return e
}

func (c *churn) balancer(serial int) desired.LoadBalancer {
	l := desired.LoadBalancer{ID: fmt.Sprint("lb", serial), DSR: c.rnd.IntN(2) == 0}
	if c.rnd.IntN(3) == 0 {
		l.SourceVIP = netip.MustParseAddr("10.244.1.40")
	}
	vip := ""
	if c.rnd.IntN(4) > 0 {
		vip = fmt.Sprintf("10.96.%d.%d", serial/200, 1+serial%200)
		if c.rnd.IntN(3) == 0 {
			vip, l.IPv6 = fmt.Sprintf("fd96::%x", 1+serial), true
		}
		l.VIPs = []netip.Addr{netip.MustParseAddr(vip)}
	}

	for _, proto := range []uint8{6, 17} {
		l.Ports = append(l.Ports,
			desired.LBPort{Protocol: proto, ExternalPort: uint16(30000 + serial), InternalPort: 8080,
				Distribution: uint8(max(0, c.rnd.IntN(12)-9)), VIPExternalIP: c.rnd.IntN(2) == 0})
	}

	for range 1 + c.rnd.IntN(6) {
		id := "nobody"
		if n := len(c.desired.Endpoints); n > 0 {
			id = c.desired.Endpoints[c.rnd.IntN(n)].ID
		}
		if !slices.Contains(l.Backends, id) {
			l.Backends = append(l.Backends, id)
		}
	}
	return l
}

// next makes one change and keeps what is desired after it.
func (c *churn) next() desired.Change {
	var out desired.Change
	d := &c.desired
	d.Endpoints, d.LoadBalancers = slices.Clone(d.Endpoints), slices.Clone(d.LoadBalancers)
	c.serial++

	switch what := c.rnd.IntN(10); {
	case what < 2 || len(d.Endpoints) < 3:
		d.Endpoints = append(d.Endpoints, c.remote())
		out.Endpoints = d.Endpoints[len(d.Endpoints)-1:]
	case what < 5 || len(d.LoadBalancers) == 0:
		d.LoadBalancers = append(d.LoadBalancers, c.balancer(c.serial))
		out.LoadBalancers = d.LoadBalancers[len(d.LoadBalancers)-1:]
	case what < 6:
		if i := c.rnd.IntN(len(d.Endpoints)); d.Endpoints[i].Remote {
			out.GoneEndpoints = []string{d.Endpoints[i].ID}
			d.Endpoints = slices.Delete(d.Endpoints, i, i+1)
		}
	case what < 7:
		i := c.rnd.IntN(len(d.LoadBalancers))
		out.GoneLoadBalancers = []string{d.LoadBalancers[i].ID}
		d.LoadBalancers = slices.Delete(d.LoadBalancers, i, i+1)
	case what < 8:
		if i := c.rnd.IntN(len(d.Endpoints)); d.Endpoints[i].Remote { // another address
			d.Endpoints[i].Addrs = []netip.Prefix{netip.PrefixFrom(c.addr(), 32)}
			out.Endpoints = d.Endpoints[i : i+1]
		}
	default:
		i := c.rnd.IntN(len(d.LoadBalancers))
		var serial int
		fmt.Sscanf(d.LoadBalancers[i].ID, "lb%d", &serial)
		d.LoadBalancers[i] = c.balancer(serial)
		out.LoadBalancers = d.LoadBalancers[i : i+1]
	}
	return out
}

// Small changes end in the same state as rendering everything.
func TestChangeEqualsRender(t *testing.T) {
	c := churn{rnd: rand.New(rand.NewPCG(1, 2)),
		desired: desired.State{Networks: []desired.Network{{ID: netID, Type: l2BridgeType,
			Subnets: []desired.Subnet{{Prefix: netip.MustParsePrefix("10.244.1.0/24")},
				{Prefix: netip.MustParsePrefix("fd00:1::/64")}}}}}}
	live := render(c.desired, testFacts)
	writes := 0
	for step := range 600 {
		change := c.next()
		if !live.takes(change) {
			t.Fatalf("step %d: the change cannot be made alone: %+v", step, change)
		}
		for _, tx := range live.change(change) {
			writes += len(tx.gone) + len(tx.come)
		}
		if step%7 != 0 {
			continue
		}
		want := Render(c.desired, testFacts)
		if len(live.state.Rejected)+len(want.Rejected) > 0 {
			t.Fatalf("step %d: rejected %v, %v", step, live.state.Rejected, want.Rejected)
		}
		want.keepChains(live.state)
		if !reflect.DeepEqual(want.Rules, live.state.Rules) || !reflect.DeepEqual(want.Rules6, live.state.Rules6) {
			t.Fatalf("step %d, after %+v (-all +small):\n%s%s", step, change, cmp.Diff(want.Rules, live.state.Rules),
				cmp.Diff(want.Rules6, live.state.Rules6))
		}
	}

	if writes < 3000 {
		t.Errorf("only %d elements were written", writes)
	}
}

// What is more than a load balancer or a backend's address is not taken.
func TestChangeTakes(t *testing.T) {
	d := sample()
	d.LoadBalancers = d.LoadBalancers[:3]
	d.Endpoints = slices.DeleteFunc(d.Endpoints, func(e desired.Endpoint) bool { return e.ID == "lost" })
	live := render(d, testFacts)
	pod := d.Endpoints[1]
	for name, c := range map[string]desired.Change{
		"a pod that comes":    {Endpoints: []desired.Endpoint{{ID: "new", Network: "net", Namespace: "pod"}}},
		"a pod that goes":     {GoneEndpoints: []string{pod.ID}},
		"a pod that detaches": {Endpoints: []desired.Endpoint{{ID: pod.ID, Network: "net", Addrs: pod.Addrs}}},
	} {
		if live.takes(c) {
			t.Errorf("%s was taken", name)
		}
	}
	if !live.takes(desired.Change{GoneEndpoints: []string{"far", "unattached"}, GoneLoadBalancers: []string{"dns"}}) {
		t.Error("backends and a load balancer that go were not taken")
	}
	if render(sample(), testFacts).takes(desired.Change{}) {
		t.Error("a change was taken while an object is rejected")
	}
}
