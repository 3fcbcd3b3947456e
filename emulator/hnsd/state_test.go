package hnsd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// world is a state that random calls change, without anything of the outside.
type world struct {
	h   *Host
	s   *State
	ids int
}

func newWorld(build int) *world {
	profile, err := ProfileOf(build)
	if err != nil {
		panic(err)
	}
	w := &world{}
	w.h = &Host{Profile: profile, NodeAddr: "10.99.7.21", NodeMAC: "00-15-5D-00-00-01", NewID: func() string {
		w.ids++
		return fmt.Sprintf("00000000-0000-4000-8000-%012x", w.ids)
	}}
	w.s = NewState(w.h.NewID())
	return w
}

func (w *world) pick(r *rand.Rand, k Kind) string {
	list := w.s.List(k)
	if len(list) == 0 {
		return ZeroID
	}
	return list[r.IntN(len(list))].ID
}

// step makes one random call; whether it succeeds does not matter.
func (w *world) step(r *rand.Rand) (next *State) {
	var err error
	const version = `"SchemaVersion":{"Major":2,"Minor":0}`
	switch r.IntN(10) {
	case 0:
		next, _, err = w.h.Create(w.s, Network, "", "", ParseDoc(
			fmt.Sprintf(`{"Name":"n","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.%d.0.0/24"}]}],%s}`,
				r.IntN(9), version)))

	case 1, 2:
		next, _, err = w.h.Create(w.s, Endpoint, w.pick(r, Network), "", ParseDoc(
			fmt.Sprintf(`{"Policies":[{"Type":"PortMapping","Settings":{"Protocol":6,"ExternalPort":%d}}],%s}`,
				30000+r.IntN(20), version)))

	case 3, 4:
		next, _, err = w.h.Create(w.s, Endpoint, w.pick(r, Network), "", ParseDoc(
			fmt.Sprintf(`{"Flags":1,"IpConfigurations":[{"IpAddress":"10.9.9.%d"}],%s}`, r.IntN(40), version)))

	case 5, 6:
		vip := ""
		if r.IntN(2) == 0 {
			vip = fmt.Sprintf(`"FrontendVIPs":["10.96.0.%d"],`, r.IntN(20))
		}
		next, _, err = w.h.Create(w.s, LoadBalancer, "", "", ParseDoc(
			fmt.Sprintf(
				`{"HostComputeEndpoints":[%q],%s"Flags":%d,"PortMappings":[{"Protocol":6,"ExternalPort":%d}],%s}`,
				w.pick(r, Endpoint), vip, r.IntN(2), 30000+r.IntN(20), version)))

	case 7:
		next, err = w.h.Modify(w.s, LoadBalancer, w.pick(r, LoadBalancer), ParseDoc(
			fmt.Sprintf(`{"HostComputeEndpoints":[%q],"PortMappings":[{"Protocol":6,"ExternalPort":%d}],%s}`,
				w.pick(r, Endpoint), 30000+r.IntN(20), version)))

	case 8:
		next, err = w.h.Delete(w.s, Kind(r.IntN(int(Kinds))), w.pick(r, Kind(r.IntN(int(Kinds)))))
	case 9:
		next, err = w.h.Delete(w.s, LoadBalancer, w.pick(r, LoadBalancer))
	}
	if err != nil {
		return w.s
	}

	return next
}

// TestStateIndex makes many changes and holds the index, the counts and the differences to what a look at every object
// says, and the older states to what they were.
func TestStateIndex(t *testing.T) {
	w := newWorld(26100)
	r := rand.New(rand.NewPCG(1, 2))
	replayed, err := (*State)(nil).Replay(w.s.Diff(nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		before := contents(w.s)
		next := w.step(r)
		if !maps.Equal(contents(w.s), before) {
			t.Fatalf("step %d changed the older state", i)
		}
		c := next.Diff(w.s)
		if replayed, err = replayed.Replay(c); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			if !maps.Equal(texts(replayed), texts(next)) {
				t.Fatalf("step %d: the changes do not lead to the state", i)
			}
			checkIndex(t, next)
		}
		w.s = next.Settled()
	}

	if w.s.Count(LoadBalancer) < 5 || w.s.Count(Endpoint) < 10 {
		t.Errorf("only %d load balancers and %d endpoints at the end: the calls do nothing", w.s.Count(LoadBalancer),
			w.s.Count(Endpoint))
	}
}

func contents(s *State) map[string]*Object {
	m := map[string]*Object{}
	for o := range s.Everything() {
		m[o.Kind.String()+o.ID] = o
	}
	return m
}

func texts(s *State) map[string]string {
	m := map[string]string{}
	for id, o := range contents(s) {
		m[id] = fmt.Sprint(o.Seq, o.Doc)
	}
	return m
}

func checkIndex(t *testing.T, s *State) {
	t.Helper()
	want, have := map[indexed]bool{}, map[indexed]bool{}
	blocks := 0
	for o := range s.Everything() {
		for p := range properties(o) {
			want[indexed{p, o.ID}] = true
		}
		if o.Kind == LoadBalancer && o.balancer.block {
			blocks++
		}
		again := *o
		again.read()
		if !reflect.DeepEqual(again.typed, o.typed) {
			t.Fatalf("%s %s: what is known of it is not what its document says: %s", o.Kind, o.ID, o.Doc)
		}
	}

	s.index.Ascend(func(e indexed) bool { have[e] = true; return true })
	if !reflect.DeepEqual(want, have) || blocks != s.PortBlocks() {
		t.Fatalf("the index has %d entries and %d blocks, want %d and %d", len(have), s.PortBlocks(), len(want), blocks)
	}
	for k := range Kinds {
		list := s.List(k)
		if len(list) != s.byID[k].Len() ||
			!slices.IsSortedFunc(list, func(a, b *Object) int { return int(a.Seq) - int(b.Seq) }) {
			t.Fatalf("%v: the order of creation is lost", k)
		}
	}
}

// TestConflicts holds what two objects cannot both have, through creation, change and deletion.
func TestConflicts(t *testing.T) {
	w := newWorld(26100)
	create := func(k Kind, parent, doc string) (string, error) {
		next, id, err := w.h.Create(w.s, k, parent, "", ParseDoc(doc[:len(doc)-1]+`,"SchemaVersion":{"Major":2,"Minor":0}}`))
		if err == nil {
			w.s = next.Settled()
		}
		return id, err
	}
	must := func(id string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	refused := func(what string, want *Error, err error) {
		t.Helper()
		if err != error(want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	network := must(create(Network, "",
		`{"Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/24","Routes":[{"NextHop":"10.1.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`))
	remote := must(create(Endpoint, network, `{"Flags":1,"IpConfigurations":[{"IpAddress":"10.2.0.5"}]}`))
	_, err := create(Endpoint, network, `{"Flags":1,"IpConfigurations":[{"IpAddress":"10.2.0.5"}]}`)
	refused("a second remote endpoint", ErrAddressInvalid, err)
	must(create(Endpoint, network, `{"IpConfigurations":[{"IpAddress":"10.1.0.9"}]}`))
	// kubernetes/kubernetes#138000
	must(create(Endpoint, network, `{"Flags":1,"IpConfigurations":[{"IpAddress":"10.1.0.9"}]}`))
	_, err = create(Endpoint, network, `{"IpConfigurations":[{"IpAddress":"10.1.0.9"}]}`)
	refused("a second local endpoint", ErrAddressInvalid, err)

	lb := func(vips, port, rest string) string {
		return fmt.Sprintf(
			`{"HostComputeEndpoints":[%q],"FrontendVIPs":[%s],"PortMappings":[{"Protocol":6,"ExternalPort":%s}]%s}`,
			remote, vips, port, rest)
	}
	first := must(create(LoadBalancer, "", lb(`"10.96.0.1","10.96.0.2"`, "80", "")))
	_, err = create(LoadBalancer, "", lb(`"10.96.0.2"`, "80", ""))
	refused("one of its frontends", ErrAlreadyExists, err)
	must(create(LoadBalancer, "", lb(`"10.96.0.2"`, "81", "")))
	must(create(LoadBalancer, "", lb(`"10.96.0.2"`, "80", `,"Flags":2`))) // the other family
	next, err := w.h.Delete(w.s, LoadBalancer, first)
	if err != nil {
		t.Fatal(err)
	}
	w.s = next.Settled()
	must(create(LoadBalancer, "", lb(`"10.96.0.1"`, "80", "")))

	must(create(LoadBalancer, "", lb("", "30080", "")))
	mapping := `{"Policies":[{"Type":"PortMapping","Settings":{"Protocol":%s,"ExternalPort":%s,"InternalPort":80}}]}`
	_, err = create(Endpoint, network, fmt.Sprintf(mapping, "6", "30080"))
	refused("a port mapping over a node port", ErrPortAlreadyExists, err)
	must(create(Endpoint, network, fmt.Sprintf(mapping, "17", "30080")))
	must(create(Endpoint, network, fmt.Sprintf(mapping, "6", `"8080"`)))
	_, err = create(LoadBalancer, "", lb("", "8080", ""))
	refused("a node port over a port mapping", ErrPortAlreadyExists, err)
}
