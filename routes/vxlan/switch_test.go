package vxlan

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/killtest"
	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// switchHost is a Windows node "self" in memory, in a cluster of nodes.
type switchHost struct {
	*keep.Keeper[Overlay, PolicyOp]
	hnstest.Overlay
	nodes  []table.Node
	told   map[string]string // annotations of self
	mode   *hostSwitch
	paths  *prober
	config Config
	writes int // to the API server
}

func (h *switchHost) Notifications(context.Context) <-chan struct{} { return nil }

var selfAddr = netip.MustParseAddr("10.0.0.1")

func newSwitchHost(t *testing.T, others ...table.Node) *switchHost {
	t.Helper()
	h := &switchHost{Overlay: hnstest.Overlay{Fake: hnstest.New(hns.Version{Major: 13, Minor: 3})},
		told: map[string]string{}, config: Default}
	h.Provider = selfAddr
	h.nodes = append([]table.Node{node("self", "10.0.0.1", "10.1.1.0/24", h.told)}, others...)
	h.again(t)
	h.makeNetwork(t)
	return h
}

// again starts the program anew.
func (h *switchHost) again(t *testing.T) {
	t.Helper()
	s, err := newSwitch(Options{Node: "self", Addr: selfAddr, Config: h.config,
		Cluster: netip.MustParsePrefix("10.1.0.0/16"), HNS: h,
		Annotate: func(_ context.Context, annotations map[string]string) error {
			h.writes++
			for k, v := range annotations {
				h.told[k] = v
			}
			return nil
		}}, func(netip.Addr) (Uplink, error) {
		return Uplink{Index: 1, Name: "vEthernet (Ethernet)", MTU: 1500}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.mode, h.paths = s, s.paths
	h.Keeper = keep.New(s, keep.Options{Nodes: func() ([]table.Node, bool) { return h.nodes, true }})
}

func (h *switchHost) makeNetwork(t *testing.T) {
	t.Helper()
	wanted, err := h.Network(podnet.Options{PodCIDR: netip.MustParsePrefix("10.1.1.0/24"),
		Cluster:  netip.MustParsePrefix("10.1.0.0/16"),
		Services: netip.MustParsePrefix("10.96.0.0/16"), Node: selfAddr})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.CreateNetwork(t.Context(), wanted.HNS); err != nil {
		t.Fatal(err)
	}
}

// dropNetwork deletes the network, as somebody else would.
func (h *switchHost) dropNetwork(t *testing.T) {
	t.Helper()
	n, err := h.NetworkByName(t.Context(), podnet.NetworkName)
	if err == nil {
		err = h.DeleteNetwork(t.Context(), n.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// policies prints those of the network.
func (h *switchHost) policies() string {
	var lines []string
	for line := range strings.Lines(h.DumpNetworks()) {
		if _, rest, ok := strings.Cut(line, "remote subnet "); ok {
			lines = append(lines, rest)
		}
	}
	return strings.Join(lines, "")
}

func peerNode(n int) table.Node {
	return node(fmt.Sprintf("n%d", n), fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf("10.1.%d.0/24", n),
		announced(fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf(`{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:0%d"}`, n)))
}

const (
	toTwo   = "10.1.2.0/24 vsid 4096 at 10.0.0.2 AA-BB-CC-DD-EE-02\n"
	toThree = "10.1.3.0/24 vsid 4096 at 10.0.0.3 AA-BB-CC-DD-EE-03\n"
)

func TestSwitch(t *testing.T) {
	h := newSwitchHost(t, peerNode(2), peerNode(3))
	expect := func(what, policies string, present int) {
		t.Helper()
		h.Sync(t.Context())
		if s := h.Status(); h.policies() != policies || s.Present != present || s.Error != "" {
			t.Errorf("%s:\n%s\n%+v", what, h.policies(), s)
		}
	}
	expect("at the start", toTwo+toThree, 2)
	if want := announced("10.0.0.1", `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:02"}`); !cmp.Equal(h.told, want) {
		t.Errorf("the node announces %v", h.told)
	}

	h.ResetCalls()
	writes := h.writes
	h.again(t)
	expect("another process", toTwo+toThree, 2)
	if h.Calls() != "find network: 1\n" || h.writes != writes {
		t.Errorf("a restart called HNS %q and wrote %d times to the API server", h.Calls(), h.writes-writes)
	}

	h.nodes[1].Annotations[AnnotationBackendData] = `{"VNI":4096,"VtepMAC":"aa:bb:cc:dd:ee:12"}`
	changed := strings.Replace(toTwo, "EE-02", "EE-12", 1)
	expect("another MAC address of a peer", changed+toThree, 2)
	h.nodes[2].Annotations[AnnotationBackendData] = `{"VNI":1,"VtepMAC":"aa:bb:cc:dd:ee:03"}`
	expect("another VNI of a peer", changed, 1)
	h.nodes = h.nodes[:2]
	expect("a node is gone", changed, 1)
	h.nodes[1].Annotations = nil
	expect("a node announces nothing any more", changed, 0)

	h.nodes = append(h.nodes[:1], peerNode(2))
	h.dropNetwork(t)
	h.Sync(t.Context())
	if s := h.Status(); s.Error == "" {
		t.Errorf("without the network: %+v", s)
	}
	h.makeNetwork(t)
	expect("the network was made anew", toTwo, 1)
	if h.told[AnnotationBackendData] == `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:02"}` {
		t.Error("the node announces the MAC address of the network before")
	}
}

// Policies of others stay, wrong ones of ours do not, and the right one counts although a wrong one is beside it.
func TestSwitchRepairs(t *testing.T) {
	ctx, h := t.Context(), newSwitchHost(t, peerNode(2), peerNode(3))
	h.Sync(ctx)
	h.Sync(ctx) // reads back what the first one wrote
	n, err := h.NetworkByName(ctx, podnet.NetworkName)
	if err != nil {
		t.Fatal(err)
	}
	add := func(prefix, provider, mac string) {
		t.Helper()
		r := hns.RemoteSubnet{Prefix: netip.MustParsePrefix(prefix), Provider: netip.MustParseAddr(provider),
			VSID: 4096, MAC: mac}
		if err := h.AddRemoteSubnet(ctx, n.ID, r); err != nil {
			t.Fatal(err)
		}
	}

	for _, r := range n.RemoteSubnets {
		if err := h.RemoveRemoteSubnet(ctx, n.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	h.Sync(ctx)
	if s := h.Status(); h.policies() != toTwo+toThree || s.Repairs != 2 {
		t.Errorf("all deleted: %s %+v", h.policies(), s)
	}

	// a stale one of a peer, added last: it may be the one that counts
	add("10.1.2.0/24", "10.0.0.9", "00-15-5D-00-00-09")
	add("10.1.7.0/24", "10.0.0.7", "00-15-5D-00-00-07")   // of a node that is gone
	add("172.20.0.0/24", "10.0.0.8", "00-15-5D-00-00-08") // of somebody else
	h.Sync(ctx)
	if want := toTwo + toThree + "172.20.0.0/24 vsid 4096 at 10.0.0.8 00-15-5D-00-00-08\n"; h.policies() != want ||
		!h.Status().Complete() {
		t.Errorf("repaired:\n%s%+v", h.policies(), h.Status())
	}
}

// Every call to HNS fails in turn, with and without effect, as if the process had been killed there; then another
// process goes on.
func TestSwitchFailures(t *testing.T) {
	for _, how := range []hnstest.Outcome{hnstest.Fail, hnstest.DoThenFail, hnstest.LieAboutIt} {
		for at := 1; ; at++ {
			h := newSwitchHost(t, peerNode(2), peerNode(3))
			n, err := h.NetworkByName(t.Context(), podnet.NetworkName)
			if err != nil {
				t.Fatal(err)
			}
			wrong := hns.RemoteSubnet{Prefix: netip.MustParsePrefix("10.1.2.0/24"),
				Provider: netip.MustParseAddr("10.0.0.9"), VSID: 4096, MAC: "00-15-5D-00-00-09"}
			if err := h.AddRemoteSubnet(t.Context(), n.ID, wrong); err != nil {
				t.Fatal(err)
			}

			calls := 0
			h.SetFault(func(string) hnstest.Outcome {
				if calls++; calls == at {
					return how
				}
				return hnstest.Work
			})
			h.Sync(t.Context())
			if calls < at {
				break // every call of a pass has failed once
			}
			h.again(t)
			h.Sync(t.Context())
			h.Sync(t.Context())
			if h.policies() != toTwo+toThree || !h.Status().Complete() {
				t.Errorf("call %d ends as %d: %s %+v", at, how, h.policies(), h.Status())
			}
		}
	}
}

// TestSwitchKilled ends the agent after each change of its first plan: policies that are wrong, missing, stale, and of
// somebody else.
func TestSwitchKilled(t *testing.T) {
	h := newSwitchHost(t, peerNode(2), peerNode(3), peerNode(4))
	remote := func(prefix, provider, mac string) hns.RemoteSubnet {
		return hns.RemoteSubnet{Prefix: netip.MustParsePrefix(prefix), Provider: netip.MustParseAddr(provider),
			VSID: 4096, MAC: mac}
	}

	foreign := remote("172.20.0.0/24", "10.0.0.8", "00-15-5D-00-00-08")
	killtest.EachChange(t, killtest.Agent[Overlay, PolicyOp]{
		InMemory: true,
		Mode: func(string) (keep.Mode[Overlay, PolicyOp], []table.Node, error) {
			h.again(t)
			return h.mode, h.nodes, nil
		},
		Host: func(t *testing.T, _ string) killtest.Host {
			return killtest.Host{
				Before: func() error {
					clear(h.told)
					h.dropNetwork(t)
					h.makeNetwork(t)
					h.Provide(podnet.NetworkName, selfAddr, "00-15-5D-AA-00-01")
					n, err := h.NetworkByName(t.Context(), podnet.NetworkName)
					for _, r := range []hns.RemoteSubnet{
						foreign, remote("10.1.2.0/24", "10.0.0.9", "00-15-5D-00-00-09"),
						remote("10.1.3.0/24", "10.0.0.3", "AA-BB-CC-DD-EE-03"),
						remote("10.1.7.0/24", "10.0.0.7", "00-15-5D-00-00-07"),
					} {
						err = errors.Join(err, h.AddRemoteSubnet(t.Context(), n.ID, r))
					}
					return err
				},
				Tables: func() ([]string, error) {
					list := sortedPairs(h.told)
					for line := range strings.Lines(h.policies()) {
						list = append(list, strings.TrimSpace(line))
					}
					return list, nil
				},
				Want: append(sortedPairs(announced("10.0.0.1", `{"VNI":4096,"VtepMAC":"00:15:5d:aa:00:01"}`)),
					strings.TrimSpace(toTwo), strings.TrimSpace(toThree),
					"10.1.4.0/24 vsid 4096 at 10.0.0.4 AA-BB-CC-DD-EE-04"),
				Foreign: []string{"172.20.0.0/24 vsid 4096 at 10.0.0.8 00-15-5D-00-00-08"},
			}
		},
	})
}

// A policy that HNS accepts and does not list is an error that says so, not a loop.
func TestSwitchLies(t *testing.T) {
	h := newSwitchHost(t, peerNode(2))
	h.SetFault(func(kind string) hnstest.Outcome {
		if kind == "add remote subnet" {
			return hnstest.LieAboutIt
		}
		return hnstest.Work
	})
	h.Sync(t.Context())
	h.Sync(t.Context())
	if s := h.Status(); s.Complete() || !strings.Contains(s.Routes[0].Reason, "did not list it afterwards") {
		t.Errorf("status %+v", s)
	}
	h.SetFault(nil)
	h.Sync(t.Context())
	h.Sync(t.Context())
	if s := h.Status(); !s.Complete() || h.policies() != toTwo {
		t.Errorf("afterwards: %s %+v", h.policies(), s)
	}
}

// Nothing is announced before HNS has given the network its MAC address.
func TestSwitchWaits(t *testing.T) {
	h := newSwitchHost(t, peerNode(2))
	h.dropNetwork(t)
	h.LateProvider = true
	h.makeNetwork(t)
	h.Sync(t.Context())
	if len(h.told) > 0 {
		t.Errorf("the node announces %v", h.told)
	}
	h.Provide(podnet.NetworkName, selfAddr, "00-15-5D-AA-00-01")
	h.Sync(t.Context())
	if h.told[AnnotationBackendData] != `{"VNI":4096,"VtepMAC":"00:15:5d:aa:00:01"}` {
		t.Errorf("the node announces %v", h.told)
	}
}

// A way that is too narrow is named once it is known, and the route stays in place.
func TestSwitchNarrowPath(t *testing.T) {
	h := newSwitchHost(t, peerNode(2), peerNode(3))
	h.Sync(t.Context())
	h.Sync(t.Context()) // reads back what the first one wrote, and asks for both ways
	asked, mtu := h.paths.due(time.Now())
	if slices.SortFunc(asked, netip.Addr.Compare); len(asked) != 2 || mtu != 1500 {
		t.Fatalf("%v are to be asked with %d bytes", asked, mtu)
	}
	different, silent := h.paths.learn(asked, map[netip.Addr]int{asked[0]: 1400}, mtu)
	if !different || !slices.Equal(silent, asked[1:]) {
		t.Errorf("learnt something: %t; silent: %v, want %v", different, silent, asked[1:])
	}

	h.Sync(t.Context())
	s := h.Status()
	want :=
		"packets to node n2 (10.0.0.2) of more than 1400 bytes get lost, and interface vEthernet (Ethernet) sends up to 1500"
	if !s.Complete() || !strings.HasPrefix(s.Routes[0].Reason, want) || s.Routes[1].Reason != "" {
		t.Errorf("status %+v", s)
	}
	again, _ := h.paths.due(time.Now().Add(time.Hour))
	if _, silent := h.paths.learn(again, nil, mtu); len(again) != 2 || len(silent) > 0 {
		t.Errorf("%v are silent for the first time again, of %v", silent, again)
	}
}

// TestSwitchWatch: Watch reports once when it is established, so that the loop keeps its long period from the start.
func TestSwitchWatch(t *testing.T) {
	h := newSwitchHost(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	changes := 0
	err := h.mode.Watch(ctx, func() { changes++; stop() })
	if changes != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d changes, %v; want 1 and the end of the context", changes, err)
	}
}
