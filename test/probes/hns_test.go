package probes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/check/probe"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/hns"
)

// memory is HNS's objects without a host around them: hnsd's own rules, in this process.
type memory struct {
	host  *hnsd.Host
	state *hnsd.State
	calls int
	fails int // number of the call that fails; 0: none
}

const uplink = "10.99.0.101"

func newMemory(t *testing.T, build int) *memory {
	t.Helper()
	profile, err := hnsd.ProfileOf(build)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	id := func() string {
		n++
		return fmt.Sprintf("5e1f0000-0000-4000-8000-%012x", n)
	}
	return &memory{host: &hnsd.Host{Profile: profile, NodeAddr: uplink, NodeMAC: "00-15-5D-00-00-01", NewID: id},
		state: hnsd.NewState(id())}
}

// failed is the error of a call as hns/hcn words it.
func failed(err error) error {
	var known *hnsd.Error
	if errors.As(err, &known) {
		return &hns.Error{Doing: "call", Class: hns.ClassOfCode(known.Code), Code: hns.ReduceCode(known.Code), Err: err}
	}
	return err
}

func (m *memory) call(kind string, f func(k hnsd.Kind) error) error {
	m.calls++
	if m.calls == m.fails {
		return &hns.Error{Class: hns.Unknown, Code: 0x6ba, Err: errors.New("the RPC server is unavailable")}
	}
	for k := hnsd.Kind(0); k < hnsd.Kinds; k++ {
		if k.String() == kind {
			return failed(f(k))
		}
	}
	return f(0)
}

func (m *memory) Enumerate(_ context.Context, kind, query string) (text string, err error) {
	err = m.call(kind, func(k hnsd.Kind) error {
		ids, err := m.host.Enumerate(m.state, k, query)
		data, _ := json.Marshal(ids)
		text = string(data)
		return err
	})
	return text, err
}

func (m *memory) Query(_ context.Context, kind, id string) (text string, err error) {
	err = m.call(kind, func(k hnsd.Kind) (err error) {
		if err := m.host.Open(m.state, k, hns.NormalID(id)); err != nil {
			return err
		}
		text, err = m.host.Query(m.state, k, hns.NormalID(id), "")
		return err
	})
	return text, err
}

func (m *memory) Create(_ context.Context, kind, network, settings string) (text string, err error) {
	err = m.call(kind, func(k hnsd.Kind) error {
		state, id, err := m.host.Create(m.state, k, hns.NormalID(network), hnsd.ZeroID, hnsd.ParseDoc(settings))
		if err != nil {
			return err
		}
		m.state = state
		text, err = m.host.Query(m.state, k, id, "")
		return err
	})
	return text, err
}

func (m *memory) Modify(_ context.Context, kind, id, settings string) error {
	return m.call(kind, func(k hnsd.Kind) error {
		state, err := m.host.Modify(m.state, k, hns.NormalID(id), hnsd.ParseDoc(settings))
		if err == nil {
			m.state = state
		}
		return err
	})
}

func (m *memory) Delete(_ context.Context, kind, id string) error {
	return m.call(kind, func(k hnsd.Kind) error {
		state, err := m.host.Delete(m.state, k, hns.NormalID(id))
		if err == nil {
			m.state = state
		}
		return err
	})
}

func (m *memory) First(_ context.Context, method, path, body string) (text string, err error) {
	err = m.call("", func(hnsd.Kind) error {
		state, answer, err := m.host.HNSCall(m.state, hnsd.ParseV1(method, path, body))
		m.state, text = state, answer
		return failed(err)
	})
	return text, err
}

func (m *memory) Watch(context.Context, func(uint32, string)) (func(), error) {
	return nil, errors.New("objects in memory do not notify")
}

// Adapters has the uplink, and the host's endpoint while it is attached.
func (m *memory) Adapters() ([]probe.Adapter, error) {
	list := []probe.Adapter{{Name: "Ethernet", Addrs: []netip.Addr{netip.MustParseAddr(uplink)}, Defaults: 1}}
	for _, o := range m.state.List(hnsd.Endpoint) {
		var doc struct {
			HostComputeNamespace string
			IpConfigurations     []struct{ IpAddress netip.Addr }
		}
		text, err := m.host.Query(m.state, hnsd.Endpoint, o.ID, "")
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			return nil, err
		}
		if doc.HostComputeNamespace != "" && doc.HostComputeNamespace != hnsd.ZeroID && len(doc.IpConfigurations) > 0 {
			list = append(list, probe.Adapter{Name: "vEthernet",
				Addrs: []netip.Addr{doc.IpConfigurations[0].IpAddress}})
		}
	}
	return list, nil
}

func (m *memory) RestartHNS(context.Context) error { return nil }

// objects lists all objects except for the host's own namespace.
func (m *memory) objects() []string {
	var list []string
	for o := range m.state.Everything() {
		if o.Kind != hnsd.Namespace {
			list = append(list, o.Kind.String()+" "+o.ID)
		}
	}
	return list
}

// TestHNSByBuild plays the probe on each build's HNS. Codes that differ between builds show that it reports what it
// was told.
func TestHNSByBuild(t *testing.T) {
	for _, tc := range []struct {
		build             int
		version, frontend string
	}{
		{17763, "9.5", "0x803b0013"}, {20348, "13.3", "0xb7"}, {26100, "15.5", "0xb7"},
	} {
		t.Run(tc.version, func(t *testing.T) {
			m := newMemory(t, tc.build)
			report, err := probe.ProbeHNS(t.Context(), m, m, probe.Options{Changes: true, RestartHNS: true})
			if err != nil || len(report.Left) > 0 {
				t.Fatalf("error %v, left %v", err, report.Left)
			}

			for line, want := range map[string]string{
				"hns.version": tc.version, "balancer.same-frontend": tc.frontend, "network.prefix": "same",
				"network.gateway": "same",
				"network.unknown": "0x490", "filter.as-listed": "1", "restart.endpoint": "attached",
				"balancer.id": "kept", "namespace.create": "there is one",
			} {
				if got, ok := report.Get(line); !ok || got.Value != want {
					t.Errorf("%s: %q, want %q", line, got, want)
				}
			}
			if left := m.objects(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestHNSAnswersAllItsFacts: every fact of this probe has a line on a host that does all.
func TestHNSAnswersAllItsFacts(t *testing.T) {
	m := newMemory(t, 20348)
	first, err := probe.ProbeHNS(t.Context(), m, m, probe.Options{Changes: true, Leave: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.objects()) == 0 {
		t.Fatal("nothing was left for the second run")
	}
	second, err := probe.ProbeHNS(t.Context(), m, m, probe.Options{Changes: true, RestartHNS: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := second.Get("left.balancers"); got.Value != "2" {
		t.Errorf("%q, want 2 load balancers of the first run", got)
	}
	if left := m.objects(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}

	if l, _ := second.Get("network.delete"); l.Value != "ok" {
		t.Errorf("%s", l)
	}
	for _, f := range check.Compare(check.Facts(), []check.Report{first, second}) {
		// A listener on the endpoint's address needs a real host.
		if f.Probe == "hns" && f.Outcome == check.NotAsked && !strings.HasPrefix(f.Line, "reach.") {
			t.Errorf("%s: not asked", f.Line)
		}
	}
}

// TestHNSUndoes makes each call fail in turn: whatever was made is removed, or named as left behind.
func TestHNSUndoes(t *testing.T) {
	m := newMemory(t, 26100)
	if _, err := probe.ProbeHNS(t.Context(), m, m, probe.Options{Changes: true}); err != nil {
		t.Fatal(err)
	}
	for fails := 1; fails <= m.calls; fails++ {
		broken := newMemory(t, 26100)
		broken.fails = fails
		report, _ := probe.ProbeHNS(t.Context(), broken, broken, probe.Options{Changes: true})
		if left := broken.objects(); len(left) > len(report.Left) {
			t.Errorf("call %d failed: %v is there, the report has %v", fails, left, report.Left)
		}
	}
}

// TestHNSWithoutChanges makes nothing, and refuses to make something beside a network for pods.
func TestHNSWithoutChanges(t *testing.T) {
	m := newMemory(t, 20348)
	before := m.state
	if _, err := probe.ProbeHNS(t.Context(), m, m, probe.Options{}); err != nil {
		t.Fatal(err)
	}
	if m.state != before {
		t.Error("the state of HNS changed")
	}

	if _, err := m.Create(t.Context(), "Network", "",
		`{"Name":"porthole","Type":"L2Bridge","SchemaVersion":{"Major":2},"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.244.1.0/24"}]}]}`); err != nil {
		t.Fatal(err)
	}
	before = m.state
	_, err := probe.ProbeHNS(t.Context(), m, m, probe.Options{Changes: true})
	if err == nil || !strings.Contains(err.Error(), "porthole (L2Bridge)") || m.state != before {
		t.Errorf("error %v; want one that names the network, and no change", err)
	}
}

// TestFacts checks that no two facts have the same line, and that no fact lacks a field.
func TestFacts(t *testing.T) {
	var lines []string
	for _, f := range check.Facts() {
		if f.Number == 0 || f.Line == "" || f.Fact == "" || f.Assume == "" || f.Source == "" ||
			!slices.Contains(check.Probes, f.Probe) {
			t.Errorf("incomplete: %+v", f)
		}
		if slices.Contains(lines, f.Line) {
			t.Errorf("two facts for %s", f.Line)
		}
		lines = append(lines, f.Line)
	}
}
