package ovn

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Row 1.50.
func TestCheckDriver(t *testing.T) {
	for name, c := range map[string]struct {
		driver driver
		want   []string // none: no error
	}{
		"installed":     {driver{Installed: true, Start: 1}, nil},
		"by hand":       {driver{Installed: true, Start: 3}, nil},
		"not installed": {driver{}, []string{"not installed", "OVSExt", "install.cmd", "TESTSIGNING", "--mode vxlan"}},
		"disabled": {driver{Installed: true, Start: 4},
			[]string{"disabled", "sc.exe config OVSExt start= system"}},
		"not readable": {driver{Err: errors.New("access is denied")}, []string{"not known", "access is denied"}},
	} {
		err := checkDriver(c.driver)
		if (err != nil) != (c.want != nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
}

// TestSwitchd: an Open vSwitch that cannot work is a problem that names the cure.
func TestSwitchd(t *testing.T) {
	for name, c := range map[string]struct {
		datapaths []string
		want      string // "": no problem
	}{
		"both": {[]string{"netdev", "system"}, ""}, "the wanted one": {[]string{"system"}, ""},
		"the switch never ran": {nil, "ovs-vswitchd has never run"},
		"another datapath":     {[]string{"netdev"}, "--ovn-datapath"},
	} {
		seen := settled()
		seen.Datapaths = c.datapaths
		got := strings.Join(makePlan(options, nodes, seen).Problems, "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSwitchdAway: an Open vSwitch that ran and does not now is a problem, whatever shows it, until it is back.
func TestSwitchdAway(t *testing.T) {
	m, at := New(options, nil), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	problems := func(pending bool, away string, after time.Duration) string {
		seen := settled()
		seen.Pending, seen.Away = pending, away
		m.judge(&seen, at.Add(after))
		return strings.Join(makePlan(options, nodes, seen).Problems, "; ")
	}
	for _, c := range []struct {
		pending bool
		away    string
		after   time.Duration
		want    string // "": no problem
	}{
		{false, "", 0, ""}, {false, "nobody listens", 0, "nobody listens"},
		{true, "", time.Second, ""}, {true, "", time.Second + pendingWait - 1, ""},
		{true, "", time.Second + pendingWait,
			"has not carried out a change of the database since 2026-01-02T03:04:06Z"},
		{false, "", time.Minute, ""}, {true, "", time.Hour, ""},
	} {
		got := problems(c.pending, c.away, c.after)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("pending %t, away %q after %v: %q, want %q", c.pending, c.away, c.after, got, c.want)
		}
	}
}

// TestLost: an interface of a pod that is no port of the bridge for long is a problem; one that is being attached is
// none.
func TestLost(t *testing.T) {
	m, at := New(options, nil), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		loose string
		after time.Duration
		want  string
	}{
		{"ovn0123456789ab", 0, ""}, {"ovn0123456789ab", looseWait - 1, ""},
		{"ovn0123456789ab", looseWait, "no network: delete them"},
		{"ovncdcdcdcdcdcd", looseWait, ""}, {"ovn0123456789ab", looseWait + 1, ""},
	} {
		seen := settled()
		seen.Loose = []string{c.loose}
		m.judge(&seen, at.Add(c.after))
		if got := strings.Join(makePlan(options, nodes, seen).Problems, "; "); (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s after %v: %q, want %q", c.loose, c.after, got, c.want)
		}
	}
}

// TestTooLarge: pods that were made when the network between the nodes carried larger packets are named.
func TestTooLarge(t *testing.T) {
	seen := settled()
	seen.Bridges["br-int"].Ports["ovn0123456789ab"] = Interface{ID: "default_a",
		Pod: netip.MustParsePrefix("10.244.1.7/24"), PodMTU: 1442}
	if p := makePlan(options, nodes, seen); len(p.Problems) > 0 {
		t.Errorf("a pod that fits: %q", p.Problems)
	}
	seen.MTU = 1400
	p := makePlan(options, nodes, seen)
	for _, want := range []string{"at most 1342 bytes", "MTU of 1400", "default_a", "delete these pods"} {
		if len(p.Problems) != 1 || !strings.Contains(p.Problems[0], want) {
			t.Errorf("%q does not say %q", p.Problems, want)
		}
	}
}
