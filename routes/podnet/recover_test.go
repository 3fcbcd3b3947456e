package podnet

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/internal/testkit/bubble"
)

// ensured makes a pass and fails the test if it makes nothing right.
func ensured(t *testing.T, h *HNS) Made {
	t.Helper()
	made, err := h.Ensure(t.Context(), wantedNetwork(t), false)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// A host that never had containers has no namespace of its own: it is made, or the endpoint is attached without.
func TestNoHostNamespace(t *testing.T) {
	for _, refused := range []bool{false, true} {
		f := host(t, "no network")
		f.EditNamespaces(func(all *[]hns.Namespace) { *all = nil })
		h := on(f)
		if refused {
			h.Writer = noNamespaces{hnstest.Host{Fake: f}}
		}
		if made := ensured(t, h); !made.Changed {
			t.Errorf("refused %v: nothing was made", refused)
		}
		want := rightState
		if refused {
			want = strings.Replace(rightState, " in HostDefault", "", 1)
		}
		if got := f.DumpNetworks(); got != want {
			t.Errorf("refused %v:\n%s", refused, got)
		}

		before := f.Calls()
		if made := ensured(t, h); made.Changed {
			t.Errorf("refused %v: changed again; calls %s, before %s", refused, f.Calls(), before)
		}
	}
}

// A namespace that cannot be asked for is not refused: HNS is away, and nothing is attached.
func TestNamespaceUnknown(t *testing.T) {
	f := host(t, "no network")
	f.EditNamespaces(func(all *[]hns.Namespace) { *all = nil })
	f.SetFault(only("create host namespace", hnstest.Fail))
	if _, err := on(f).Ensure(t.Context(), wantedNetwork(t), false); hns.ClassOf(err) != hns.Unknown ||
		f.Count("attach endpoint") > 0 {
		t.Errorf("%v\n%s", err, f.Calls())
	}
}

// noNamespaces refuses to make namespaces.
type noNamespaces struct{ hnstest.Host }

func (noNamespaces) CreateHostNamespace(context.Context) (hns.Namespace, error) {
	return hns.Namespace{}, &hns.Error{Class: hns.Unsupported, Code: 0x80004001, Err: errors.New("not implemented")}
}

// An endpoint that HNS does not list in the host's namespace, and refuses to attach because it is attached, is right:
// an adapter has its address.
func TestAttachedAlready(t *testing.T) {
	f := host(t, "fits")
	hnstest.Host{Fake: f}.ForgetNamespaces()
	if made := ensured(t, on(f)); made.Changed {
		t.Error("it was changed although the host has the adapter")
	}

	// Even when the adapter comes only after the attempt.
	h := on(f)
	late := &lateAdapter{Host: hnstest.Host{Fake: f}, answers: 1}
	h.Adapters = late
	ensured(t, h)
	if f.Count("create endpoint") > 1 {
		t.Errorf("the endpoint was made anew: %s", f.Calls())
	}
}

// lateAdapter has no adapter for some answers.
type lateAdapter struct {
	hnstest.Host
	answers int
}

func (a *lateAdapter) NameOf(addr netip.Addr) (string, error) {
	if a.answers--; a.answers >= 0 {
		return "", nil
	}
	return a.Host.NameOf(addr)
}

// After a reboot the endpoint may be listed without its adapter: it is made anew after some seconds, and no sooner; if
// that does not help, the next time comes later.
func TestAdapterGone(t *testing.T) {
	for _, listed := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			f := host(t, "fits")
			if !listed {
				hnstest.Host{Fake: f}.ForgetNamespaces()
			}
			hnstest.Host{Fake: f}.WithoutAdapters(true)
			h := on(f)
			passes := func(d time.Duration) (err error) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
					_, err = h.Ensure(t.Context(), wantedNetwork(t), false)
				}
				return err
			}

			made := f.Count("create endpoint")
			err := passes(adapterBackoff.First)
			if err == nil || !strings.Contains(err.Error(), "no adapter has its address 10.244.1.2") ||
				f.Count("create endpoint") != made {
				t.Errorf("listed %v: %v\n%s", listed, err, f.Calls())
			}
			_ = passes(2 * time.Second)
			if f.Count("create endpoint") != made+1 {
				t.Errorf("listed %v: it was not made anew:\n%s", listed, f.Calls())
			}
			_ = passes(10 * time.Minute)
			if n := f.Count("create endpoint") - made; n < 8 || n > 16 {
				t.Errorf("listed %v: it was made %d times in ten minutes", listed, n)
			}

			hnstest.Host{Fake: f}.WithoutAdapters(false)
			if err := passes(2 * time.Minute); err != nil || !strings.Contains(f.DumpNetworks(), "porthole_ep") {
				t.Errorf("listed %v: %v\n%s", listed, err, f.DumpNetworks())
			}
		})
	}
}

// An HNS that reads the subnet back in another form: the network is replaced once, and used then.
func TestReadBackInAnotherForm(t *testing.T) {
	f := host(t, "fits")
	h := on(f)
	h.Reader = otherForm{f}
	made := ensured(t, h)
	if len(made.Replaced) != 1 || f.Count("create network") != 2 {
		t.Errorf("made %+v, calls %s", made, f.Calls())
	}
	for range 5 {
		made = ensured(t, h)
		if made.Changed || len(made.Differs) != 1 || f.Count("create network") != 2 {
			t.Fatalf("made %+v, calls %s", made, f.Calls())
		}
	}
}

// otherForm reads networks back with another gateway than they were made with.
type otherForm struct{ *hnstest.Fake }

func (o otherForm) NetworkByName(c context.Context, name string) (hns.Network, error) {
	n, err := o.Fake.NetworkByName(c, name)
	if err == nil {
		n.Subnets = []hns.Subnet{{Prefix: n.Subnets[0].Prefix, Gateway: n.Subnets[0].Prefix.Addr()}}
	}
	return n, err
}

// A gateway that HNS does not report is no difference.
func TestNoGatewayReported(t *testing.T) {
	wanted := wantedNetwork(t).HNS
	found := wanted
	found.Subnets = []hns.Subnet{{Prefix: wanted.Subnets[0].Prefix}}
	if d := Diff(wanted, found); len(d) > 0 {
		t.Errorf("%v", d)
	}
}

// Load balancers of a network are deleted before it; others stay.
func TestBalancersGoFirst(t *testing.T) {
	f := host(t, "differs, only the host's endpoint")
	var own, other hns.LoadBalancerID
	f.Edit(func(endpoints *[]hns.Endpoint, balancers *[]hns.LoadBalancer, networks *[]hns.Network) {
		*networks = append(*networks, hns.Network{ID: "other", Name: "other"})
		*endpoints = append(*endpoints, hns.Endpoint{ID: "far", Name: "far", Network: "other", Remote: true})
		*balancers = append(*balancers,
			hns.LoadBalancer{ID: "own", Endpoints: []hns.EndpointID{(*endpoints)[0].ID, "far"}},
			hns.LoadBalancer{ID: "other", Endpoints: []hns.EndpointID{"far"}})
		own, other = "own", "other"
	})
	plan, err := MakePlan(wantedNetwork(t), seenOn(t, f), false)
	if err != nil || !strings.HasPrefix(plan.String()[strings.Index(plan.String(), "delete"):],
		"delete load balancer "+string(own)+"\ndelete endpoint") {
		t.Errorf("%v\n%s", err, plan)
	}
	if made := ensured(t, on(f)); len(made.Replaced) == 0 {
		t.Errorf("made %+v", made)
	}
	left, err := f.LoadBalancerIDs(t.Context())
	if err != nil || len(left) != 1 || left[0] != other {
		t.Errorf("left %v, %v", left, err)
	}
}

func seenOn(t *testing.T, f *hnstest.Fake) Seen {
	t.Helper()
	seen, err := on(f).observe(t.Context(), wantedNetwork(t))
	if err != nil {
		t.Fatal(err)
	}
	return seen
}
