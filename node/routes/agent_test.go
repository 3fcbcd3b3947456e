package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/routes/adapters"
	"porthole.dev/porthole/routes/hostgw"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// fakeCluster is an API server in memory.
type fakeCluster struct {
	mu          sync.Mutex
	nodes       []*corev1.Node // nil: not known
	conditions  []string
	warnings    []string
	annotations []string
	refuse      error     // answer to the next writes
	pods        *fakePods // those that somebody follows; nil: nobody has
}

func (c *fakeCluster) List() (list []table.Node, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		list = append(list, toTable(n))
	}
	return list, c.nodes != nil
}

func (c *fakeCluster) Self() *corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.nodes, func(n *corev1.Node) bool { return n.Name == "win01" }); i >= 0 {
		return c.nodes[i]
	}
	return nil
}

// Annotate changes win01, the node of the tests, and notes what was set.
func (c *fakeCluster) Annotate(_ context.Context, annotations map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return c.refuse
	}
	c.annotations = append(c.annotations, fmt.Sprint(annotations))
	for i, n := range c.nodes {
		if n.Name == "win01" {
			c.nodes = slices.Clone(c.nodes)
			c.nodes[i] = n.DeepCopy()
			c.nodes[i].Annotations = annotations
		}
	}
	return nil
}

func (c *fakeCluster) Pod(context.Context, string, string) (string, map[string]string, error) {
	return "", nil, nil
}

func (c *fakeCluster) FollowPods(changed func()) podList {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = &fakePods{changed: changed, err: networkapi.ErrPodsUnknown}
	return c.pods
}

func (c *fakeCluster) SetCondition(_ context.Context, condition corev1.NodeCondition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return c.refuse
	}
	c.conditions = append(c.conditions, string(condition.Status)+" "+condition.Reason)
	return nil
}

func (c *fakeCluster) Warn(reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, reason+": "+message)
}

func (c *fakeCluster) set(nodes ...*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = nodes
}

func (c *fakeCluster) written() (conditions, warnings string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.conditions, ", "), strings.Join(c.warnings, "\n")
}

// refuseAll makes writes fail; nil: they succeed again.
func (c *fakeCluster) refuseAll(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = err
}

func node(name, addr, pods string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}},
	}
}

// fakeTable is the route table of a host in memory. It implements what hostgw needs.
type fakeTable struct {
	mu     sync.Mutex
	routes []table.Route
	away   error
}

var segment = netip.MustParsePrefix("10.99.0.0/24")

func (f *fakeTable) List() ([]table.Route, []netip.Prefix, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.routes), []netip.Prefix{segment}, f.away
}

func (f *fakeTable) Add(dst netip.Prefix, nextHop netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routes = append(f.routes, table.Route{Dst: dst, NextHop: nextHop, Ours: true})
	return nil
}

func (f *fakeTable) Delete(dst netip.Prefix, nextHop netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routes = slices.DeleteFunc(f.routes, func(r table.Route) bool { return r.Dst == dst && r.NextHop == nextHop })
	return nil
}

func (f *fakeTable) Watch(ctx context.Context, changed func()) error {
	changed()
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeTable) dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, r := range f.routes {
		lines = append(lines, r.Dst.String()+" via "+r.NextHop.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// fakeAdapters are the adapters of a Windows host in memory: those in list, and one for the host's endpoint while it
// is attached.
type fakeAdapters struct {
	hns  *hnstest.Fake
	mu   sync.Mutex
	list []adapters.Adapter
	made int // adapters of host endpoints
}

func (f *fakeAdapters) List() ([]adapters.Adapter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	addr := netip.MustParseAddr("10.244.1.2")
	name, err := hnstest.Host{Fake: f.hns}.NameOf(addr)
	is := func(a adapters.Adapter) bool { return slices.Contains(a.Addrs, addr) }
	switch {
	case name == "":
		f.list = slices.DeleteFunc(f.list, is)
	case !slices.ContainsFunc(f.list, is):
		f.made++
		f.list = append(f.list, adapters.Adapter{ID: uint64(100 + f.made), Name: name, Addrs: []netip.Addr{addr}})
	}
	return slices.Clone(f.list), err
}

func (f *fakeAdapters) EnableForwarding(a adapters.Adapter) error {
	return f.change(a.ID, func(a *adapters.Adapter) { a.Forwarding = true })
}

func (f *fakeAdapters) DeleteDefault(a adapters.Adapter, nextHop netip.Addr) error {
	return f.change(a.ID, func(a *adapters.Adapter) {
		a.Defaults = slices.DeleteFunc(slices.Clone(a.Defaults), func(hop netip.Addr) bool { return hop == nextHop })
	})
}

func (f *fakeAdapters) change(id uint64, do func(*adapters.Adapter)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].ID == id {
			do(&f.list[i])
			return nil
		}
	}
	return errors.New("the adapter is gone")
}

func (f *fakeAdapters) Watch(ctx context.Context, changed func()) error {
	changed()
	<-ctx.Done()
	return ctx.Err()
}

// dump prints the adapters, and "drops" for those without forwarding.
func (f *fakeAdapters) dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, a := range f.list {
		line := a.Name + " forwards"
		if !a.Forwarding {
			line = a.Name + " drops"
		}
		if len(a.Defaults) > 0 {
			line += fmt.Sprint(" ", a.Defaults)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// testNode is a Windows node in memory.
type testNode struct {
	*agent
	cluster  *fakeCluster
	table    *fakeTable
	hns      *hnstest.Fake
	adapters *fakeAdapters
	conf     string // folder of the CNI configuration

	modesMade int
}

// newTestNode returns a node that is not started; its cluster has three nodes.
func newTestNode(t *testing.T, o Options) *testNode {
	t.Helper()
	w := &testNode{cluster: &fakeCluster{}, table: &fakeTable{}, hns: hnstest.New(hns.Version{Major: 13, Minor: 3}),
		conf: t.TempDir()}
	w.cluster.set(node("win01", "10.99.0.21", "10.244.1.0/24"), node("win02", "10.99.0.22", "10.244.2.0/24"),
		node("lin01", "10.99.0.11", "10.244.0.0/24"))

	o.Node, o.ConfDir, o.StateDir = "win01", w.conf, t.TempDir()
	o.Cluster, o.Services = netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.96.0.0/16")
	if o.Mode == "" {
		o.Mode = DefaultMode
	}
	onFakeHost := func(e environment) (keeper, error) {
		w.modesMade++
		return keep.New(hostgw.New(e.Node, e.cluster(), w.table), e.Keep), nil
	}
	onFake := modeTable{{DefaultMode, onFakeHost}, {BGP, onFakeHost}}
	w.adapters = &fakeAdapters{hns: w.hns,
		list: []adapters.Adapter{{ID: 1, Name: "Ethernet", Addrs: []netip.Addr{netip.MustParseAddr("10.99.0.21")}}}}
	keeper := adapters.New(w.adapters)
	maker := hnsMaker{hns: &podnet.HNS{Reader: w.hns, Writer: hnstest.Host{Fake: w.hns}, Balancers: w.hns,
		Adapters: keeper}, keeper: keeper, replace: o.ReplaceNetwork, adapter: o.Adapter}
	w.agent = newAgent(o, onFake, maker)
	w.agent.cluster = w.cluster
	w.agent.onLink = func(netip.Addr) ([]netip.Prefix, error) { return []netip.Prefix{segment}, nil }
	return w
}

// start runs the agent in a bubble until the test ends.
func (w *testNode) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	tasks.Go(func() { w.loop(ctx, &tasks) })
	t.Cleanup(func() { stop(); tasks.Wait() })
	bubble.Wait()
}

// later lets time pass and waits until the agent rests.
func later(d time.Duration) {
	time.Sleep(d)
	bubble.Wait()
}

const (
	rightRoutes  = "10.244.0.0/24 via 10.99.0.11, 10.244.2.0/24 via 10.99.0.22"
	rightNetwork = `network porthole L2Bridge 10.244.1.0/24 via 10.244.1.1
network porthole endpoint "porthole_ep" [10.244.1.2] in HostDefault
`
)

func (w *testNode) mustBeRight(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(rightNetwork, w.hns.DumpNetworks()); diff != "" {
		t.Errorf("HNS (-want +got):\n%s", diff)
	}
	if got := w.table.dump(); got != rightRoutes {
		t.Errorf("routes %s, want %s", got, rightRoutes)
	}
	data, err := os.ReadFile(filepath.Join(w.conf, "10-porthole.conf"))
	if err != nil || !strings.Contains(string(data), `"type": "win-bridge"`) {
		t.Errorf("CNI configuration %s, %v", data, err)
	}
	if s := w.status(); s.unhealthy(true) != "" || len(s.Problems) > 0 || s.Present != 2 || s.Mode != DefaultMode ||
		s.PodCIDR != "10.244.1.0/24" {
		t.Errorf("status %+v", s)
	}
}

func TestNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		w.start(t)
		w.mustBeRight(t)
		if conditions, warnings := w.cluster.written(); conditions != "False RoutesReady" || warnings != "" {
			t.Errorf("conditions %q, warnings %q", conditions, warnings)
		}

		// What somebody takes away comes back: a route after a second, the network after ten.
		w.hns.Edit(func(endpoints *[]hns.Endpoint, _ *[]hns.LoadBalancer, networks *[]hns.Network) {
			*endpoints, *networks = nil, nil
		})
		if err := w.table.Delete(netip.MustParsePrefix("10.244.2.0/24"),
			netip.MustParseAddr("10.99.0.22")); err != nil {
			t.Fatal(err)
		}
		later(keep.DefaultPeriod)
		if w.table.dump() != rightRoutes || w.status().Repairs != 1 {
			t.Errorf("routes %s, %d repairs", w.table.dump(), w.status().Repairs)
		}
		later(networkPeriod)
		w.mustBeRight(t)

		// A node that leaves takes its route along.
		w.cluster.set(node("win01", "10.99.0.21", "10.244.1.0/24"), node("lin01", "10.99.0.11", "10.244.0.0/24"))
		w.changed(nil)
		later(time.Second)
		if got := w.table.dump(); got != "10.244.0.0/24 via 10.99.0.11" {
			t.Errorf("routes %s after a node left", got)
		}
	})
}

// Until everything is known, the status says what is missing and nothing is made.
func TestWaitsForTheCluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		noAddress := node("win01", "10.99.0.21", "10.244.1.0/24")
		noAddress.Status.Addresses = nil
		w.cluster.set()
		w.start(t)

		for _, c := range []struct {
			nodes []*corev1.Node
			want  string
		}{
			{nil, "the nodes of the cluster are not known yet"},
			{[]*corev1.Node{node("lin01", "10.99.0.11", "")}, "node win01 is not in the cluster yet"},
			{[]*corev1.Node{node("win01", "10.99.0.21", "")}, "node win01 has no pod range yet"},
			{[]*corev1.Node{node("win01", "10.99.0.21", "10.244.1.0/30")}, "too small"},
			{[]*corev1.Node{noAddress}, "node win01 has no internal address yet"},
		} {
			w.cluster.set(c.nodes...)
			w.changed(nil)
			later(0)
			if s := w.status(); !strings.Contains(s.unhealthy(true), c.want) || w.hns.DumpNetworks() != "" ||
				w.table.dump() != "" {
				t.Errorf("status %+v, want %q", s, c.want)
			}
		}
	})
}

// used makes HNS have a network of our name that does not fit and holds a pod's endpoint.
func (w *testNode) used(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	n, err := w.hns.CreateNetwork(ctx, hns.Network{Name: podnet.NetworkName, Type: hns.L2Bridge, Subnets: []hns.Subnet{{
		Prefix: netip.MustParsePrefix("10.244.9.0/24"), Gateway: netip.MustParseAddr("10.244.9.1")}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.hns.CreateEndpoint(ctx,
		hns.Endpoint{Name: "abc_porthole", Network: n.ID,
			Addrs: []netip.Addr{netip.MustParseAddr("10.244.9.7")}}); err != nil {
		t.Fatal(err)
	}
}

func TestNetworkThatDiffers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		w.used(t)
		before := w.hns.DumpNetworks()
		w.start(t)
		later(time.Minute)

		const difference = "subnet: wanted 10.244.1.0/24, found 10.244.9.0/24"
		if w.hns.DumpNetworks() != before {
			t.Errorf("HNS was changed:\n%s", w.hns.DumpNetworks())
		}
		if s := w.status(); !strings.Contains(s.unhealthy(true), difference) || len(s.Problems) != 1 ||
			!strings.Contains(s.Problems[0], "--replace-network") {
			t.Errorf("status %+v", s)
		}
		_, warnings := w.cluster.written()
		if !strings.HasPrefix(warnings, "NetworkDiffers: ") || !strings.Contains(warnings, difference) ||
			strings.Contains(warnings, "\n") {
			t.Errorf("events %q, want one that names the difference", warnings)
		}

		if w.modesMade != 1 {
			t.Errorf("the mode was made %d times while the network was not ready", w.modesMade)
		}

		// Without its pod the network may be replaced.
		w.hns.Edit(func(endpoints *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) { *endpoints = nil })
		later(time.Second)
		w.mustBeRight(t)
	})
}

func TestNetworkIsReplacedWhenAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{ReplaceNetwork: true})
		w.used(t)
		w.start(t)
		w.mustBeRight(t)
		if _, warnings := w.cluster.written(); warnings != "" {
			t.Errorf("events %q", warnings)
		}
	})
}

// While one call to HNS in ten fails, the node becomes right, and stays so.
func TestNodeWithFaults(t *testing.T) {
	for seed := range uint64(20) {
		bubble.Test(t, func(t *testing.T) {
			w := newTestNode(t, Options{})
			w.hns.SetFault(hnstest.OneIn(10, seed, hnstest.DoThenFail))
			w.start(t)
			later(30 * time.Second)
			w.hns.SetFault(nil)
			later(networkPeriod)
			w.mustBeRight(t)
		})
	}
}

func TestRefusedRoute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		// no node is reached
		w.cluster.set(node("win01", "10.99.0.21", "10.244.1.0/24"), node("far", "10.7.0.1", "10.244.7.0/24"))
		w.start(t)
		later(time.Minute)
		conditions, warnings := w.cluster.written()
		if conditions != "True RouteRefused" || strings.Count(warnings, "RouteRefused: ") != 1 ||
			!strings.Contains(warnings, "10.7.0.1 of node far") {
			t.Errorf("conditions %q, warnings %q", conditions, warnings)
		}

		// Once the network was available, a conflict is an event and does not take that back.
		w.cluster.set(node("win01", "10.99.0.21", "10.244.1.0/24"), node("win02", "10.99.0.22", "10.244.2.0/24"))
		later(time.Minute)
		w.cluster.set(node("win01", "10.99.0.21", "10.244.1.0/24"), node("win02", "10.99.0.22", "10.244.1.0/24"))
		later(time.Minute)
		conditions, warnings = w.cluster.written()
		if conditions != "True RouteRefused, False RoutesReady" || strings.Count(warnings, "overlaps") != 1 {
			t.Errorf("conditions %q, warnings %q", conditions, warnings)
		}
	})
}

// TestLiar: what another node says of itself neither keeps pods away from this node nor makes it unhealthy, and an
// event names both.
func TestLiar(t *testing.T) {
	honest := []*corev1.Node{node("win01", "10.99.0.21", "10.244.1.0/24"), node("win02", "10.99.0.22", "10.244.2.0/24")}
	for name, c := range map[string]struct {
		liar *corev1.Node
		want string
	}{
		"a range outside": {node("liar", "10.99.0.66", "198.18.77.0/24"),
			"RouteRefused: pod range 198.18.77.0/24 of node liar is not inside the range of all pods 10.244.0.0/16: no route leads there"},
		"another's range": {node("zliar", "10.99.0.66", "10.244.2.0/24"),
			"RouteRefused: pod range 10.244.2.0/24 of node zliar overlaps 10.244.2.0/24 of node win02, which keeps its route: no route leads to node zliar"},
		"the range of all pods": {node("aliar", "10.99.0.66", "10.244.0.0/16"),
			"RouteRefused: pod range 10.244.0.0/16 of node aliar overlaps 10.244.1.0/24 of node win01, which keeps its route: no route leads to node aliar"},
		"this node's address": {node("liar", "10.99.0.21", "10.244.66.0/24"),
			"RouteRefused: address 10.99.0.21 of node liar is that of this node, win01\nNetworkProblem: nodes liar and win01 say that they have the address 10.99.0.21: packets to the pods of all go to whoever has it"},
		"an address of the network": {node("liar", "10.7.0.1", "10.244.66.0/24"),
			"RouteRefused: address 10.7.0.1 of node liar is not on a segment that this node shares (10.99.0.0/24): host-gateway needs one, or else a router or an overlay"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newTestNode(t, Options{})
				w.cluster.set(append([]*corev1.Node{c.liar}, honest...)...)
				w.start(t)
				later(time.Minute)

				conditions, warnings := w.cluster.written()
				if conditions != "False RoutesReady" || warnings != c.want {
					t.Errorf("conditions %q, warnings %q, want %q", conditions, warnings, c.want)
				}
				if s := w.status(); s.unhealthy(true) != "" || s.Wanted != 1 || s.Present != 1 || len(s.Problems) == 0 {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

// TestOwnLie: a node whose Node object says what cannot be is told so, and takes no pods.
func TestOwnLie(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		first := node("win02", "10.99.0.22", "10.244.1.0/24")
		first.CreationTimestamp = metav1.Unix(-3600, 0)

		w.cluster.set(node("win01", "10.99.0.21", "10.244.1.0/24"), first)
		w.start(t)
		later(time.Minute)
		const want = "pod range 10.244.1.0/24 of node win01 overlaps 10.244.1.0/24 of node win02, which keeps its route: no route leads to node win01"
		conditions, warnings := w.cluster.written()
		if conditions != "True RouteRefused" || !strings.Contains(warnings, "NetworkProblem: "+want) {
			t.Errorf("conditions %q, warnings %q", conditions, warnings)
		}
		if s := w.status(); !slices.Contains(s.Problems, "other nodes send nothing to pods of this node: "+want) {
			t.Errorf("problems %q", s.Problems)
		}
	})
}

func TestConditionIsWrittenAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		w.cluster.refuse = errors.New("the API server is away")
		w.table.away = errors.New("no table")
		w.start(t)
		if s := w.status(); !strings.Contains(s.unhealthy(true), "no table") {
			t.Errorf("status %+v", s)
		}
		w.cluster.mu.Lock()
		w.cluster.refuse = nil
		w.cluster.mu.Unlock()
		later(time.Second)
		if conditions, _ := w.cluster.written(); conditions != "True RoutesUnknown" {
			t.Errorf("conditions %q", conditions)
		}
	})
}

// printed is a whole second mode: it asks a router for each route by printing it.
type printed struct{ lines *[]string }

func (printed) Network(o podnet.Options) (podnet.Network, error) { return podnet.Bridged(o) }
func (p printed) Observe(context.Context) ([]string, error)      { return *p.lines, nil }
func (p printed) Plan(nodes []table.Node, seen []string) table.Plan[table.Change] {
	plan := table.Diff(table.Peers(nodes, table.Claims{}), nil)
	plan.Ops = slices.DeleteFunc(plan.Ops, func(c table.Change) bool { return slices.Contains(seen, c.String()) })
	return plan
}
func (p printed) Apply(_ context.Context, c table.Change) error {
	*p.lines = append(*p.lines, c.String())
	return nil
}
func (printed) Watch(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }

// A second mode is a type with five methods and one line in the table.
func TestAnotherMode(t *testing.T) {
	var lines []string
	another := append(slices.Clone(modes), modeTable{
		{"top-of-rack", func(e environment) (keeper, error) { return keep.New(printed{&lines}, e.Keep), nil }},
	}...)
	if got, want := another.names(), append(Modes(), "top-of-rack"); !slices.Equal(got, want) {
		t.Errorf("names %v", got)
	}

	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{Mode: "top-of-rack"})
		w.modes = another
		w.start(t)
		later(time.Minute)
		if len(lines) != 3 || w.table.dump() != "" || w.status().Mode != "top-of-rack" ||
			w.hns.DumpNetworks() != rightNetwork {
			t.Errorf("printed %q, status %+v", lines, w.status())
		}
	})
}

func TestUnknownMode(t *testing.T) {
	if _, err := modes.start("ipip", environment{}); err == nil || !strings.Contains(err.Error(), "ipip") {
		t.Errorf("%v", err)
	}
}

// Nodes with flanneld learn how to reach this one; a cluster without flannel gets no annotations.
func TestAnnouncedToFlannel(t *testing.T) {
	self := table.Node{Name: "win01", Addr: netip.MustParseAddr("10.99.0.21")}
	other := table.Node{Name: "lin01",
		Annotations: map[string]string{"flannel.alpha.coreos.com/backend-type": "host-gw"}}
	if got := (hostGateway{}).announcement(self, []table.Node{self, {Name: "lin02"}}); got != nil {
		t.Errorf("without flannel: %v", got)
	}

	self.Annotations = (hostGateway{}).announcement(self, []table.Node{self, other})
	if len(self.Annotations) != 4 || self.Annotations["flannel.alpha.coreos.com/public-ip"] != "10.99.0.21" {
		t.Errorf("with flannel: %v", self.Annotations)
	}
	if got := (hostGateway{}).announcement(self, []table.Node{self, other}); len(got) > 0 {
		t.Errorf("written again: %v", got)
	}
}
