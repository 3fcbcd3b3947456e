package sweep

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/winbridge"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

// node is a node with pods on it.
type node struct {
	*Sweeper
	t       *testing.T
	h       *hnstest.Fake
	config  *contract.Config
	dir     string
	known   []string
	unknown error // answer of the runtime
	now     time.Time
}

func newNode(t *testing.T, pods ...string) *node {
	t.Helper()
	dir := t.TempDir()
	config, err := contract.Parse(fmt.Appendf(nil,
		`{"name":"porthole","type":"win-bridge","ipam":{"subnet":"10.244.2.0/24","dataDir":%q}}`, dir))
	if err != nil {
		t.Fatal(err)
	}
	h := hnstest.New(hns.Version{Major: 13, Minor: 3}, hns.Network{ID: "net-1", Name: "porthole", Type: hns.L2Bridge,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"),
			Gateway: netip.MustParseAddr("10.244.2.1")}}})
	if _, err := h.CreateEndpoint(t.Context(),
		hns.Endpoint{Name: "porthole_ep", Network: "net-1",
			Addrs: []netip.Addr{netip.MustParseAddr("10.244.2.2")}}); err != nil {
		t.Fatal(err)
	}

	n := &node{t: t, h: h, config: config, dir: dir, now: time.Unix(1e9, 0)}
	plugin := attach.Plugin{Kind: winbridge.Kind{}, Reader: h, Writer: h, Rules: hnstest.Rules{Fake: h}}
	for i, pod := range pods {
		namespace := fmt.Sprintf("7f4c0000-0000-4000-8000-%012d", i)
		h.AddNamespace(hns.NamespaceID(namespace))
		if _, err := plugin.Add(t.Context(),
			attach.Call{Container: pod, Namespace: namespace, Interface: "eth0", Config: config}); err != nil {
			t.Fatal(err)
		}
		n.known = append(n.known, pod)
	}
	n.Sweeper = &Sweeper{Plugin: plugin,
		Sandboxes: func(context.Context) ([]string, error) { return n.known, n.unknown }}
	return n
}

// after makes a pass some time later and compares what it freed, and what HNS and the address store have then.
func (n *node) after(d time.Duration, wantFreed, wantLeft string) error {
	n.t.Helper()
	n.now = n.now.Add(d)
	freed, err := n.Pass(n.t.Context(), n.config, n.now)
	if fmt.Sprint(freed) != wantFreed {
		n.t.Errorf("freed %v, want %s (%v)", freed, wantFreed, err)
	}
	addresses, globbed := filepath.Glob(filepath.Join(n.dir, "porthole", "10.*"))
	if globbed != nil {
		n.t.Fatal(globbed)
	}
	left := n.h.Dump()
	for _, a := range addresses {
		left += filepath.Base(a) + " "
	}
	if left != wantLeft {
		n.t.Errorf("left\n%s\nwant\n%s", left, wantLeft)
	}
	return err
}

const (
	host = "endpoint local 10.244.2.2 \"porthole_ep\"\n"
	both = host +
		"endpoint local 10.244.2.3 \"a_porthole\"\nendpoint local 10.244.2.4 \"b_porthole\"\n10.244.2.3 10.244.2.4 "
	onlB = host + "endpoint local 10.244.2.4 \"b_porthole\"\n10.244.2.4 "
)

// A sandbox that the runtime has forgotten loses endpoint and address after the grace time, the others and the host
// keep theirs.
func TestForgottenSandbox(t *testing.T) {
	n := newNode(t, "a", "b")
	n.after(0, "[]", both)
	n.known = []string{"b"}
	n.after(time.Minute, "[]", both)
	n.after(Grace-time.Second, "[]", both)
	n.after(time.Second, "[a]", onlB)
	n.after(time.Hour, "[]", onlB)
}

// A sandbox that is known again, because its network was only just being made, starts anew.
func TestKnownAgain(t *testing.T) {
	n := newNode(t, "a", "b")
	n.known = []string{"b"}
	n.after(0, "[]", both)
	n.known = []string{"a", "b"}
	n.after(Grace, "[]", both)
	n.known = []string{"b"}
	n.after(Grace, "[]", both)
	if w := n.Waiting(); fmt.Sprint(w) != "[a]" {
		t.Errorf("waiting for %v", w)
	}
	n.after(Grace, "[a]", onlB)
}

// What cannot be asked is not unknown.
func TestNoAnswer(t *testing.T) {
	n := newNode(t, "a", "b")
	n.known, n.unknown = nil, errors.New("the runtime is away")
	for range 3 {
		if err := n.after(Grace, "[]", both); err == nil {
			t.Error("no error")
		}
	}

	n.unknown = nil
	n.h.SetFault(func(kind string) hnstest.Outcome {
		if kind == "list endpoints" {
			return hnstest.Fail
		}
		return hnstest.Work
	})
	for range 3 {
		if err := n.after(Grace, "[]", both); err == nil {
			t.Error("no error")
		}
	}

	n.h.SetFault(nil)
	n.known = []string{"b"}
	n.after(0, "[]", both)
	n.h.SetFault(func(kind string) hnstest.Outcome {
		if kind == "delete endpoint" {
			return hnstest.Fail
		}
		return hnstest.Work
	})
	if err := n.after(Grace, "[]", both); err == nil {
		t.Error("no error")
	}
	n.h.SetFault(nil)
	n.after(0, "[a]", onlB)
}

// A sandbox with addresses for two interfaces loses both in one pass.
func TestTwoInterfaces(t *testing.T) {
	n := newNode(t, "a", "b")
	if err := os.WriteFile(filepath.Join(n.dir, "porthole", "10.244.2.9"), []byte("a\r\nnet1"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.known = []string{"b"}
	n.after(0, "[]", both+"10.244.2.9 ")
	n.after(Grace, "[a]", onlB)
}

// An address without an endpoint, and an endpoint without an address, are freed too.
func TestHalves(t *testing.T) {
	n := newNode(t, "a", "b")
	n.known = nil
	n.h.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
		*eps = append((*eps)[:1], (*eps)[2:]...)
	})
	if err := os.Remove(filepath.Join(n.dir, "porthole", "10.244.2.4")); err != nil {
		t.Fatal(err)
	}
	n.after(0, "[]", host+"endpoint local 10.244.2.4 \"b_porthole\"\n10.244.2.3 ")
	n.after(Grace, "[a b]", host)
}
