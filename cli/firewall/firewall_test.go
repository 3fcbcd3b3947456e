package firewall

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

// fakeHost is a firewall with the rules of a list.
type fakeHost struct {
	list    []rule
	calls   int
	refuses error
}

func (h *fakeHost) rules() ([]rule, error) { return h.list, nil }

func (h *fakeHost) carryOut(o operation) error {
	h.calls++
	if h.refuses != nil {
		return h.refuses
	}
	if o.Verb == "delete" {
		h.list = slices.DeleteFunc(h.list, func(r rule) bool { return r.Name == o.Name })
		return nil
	}
	h.list = append(h.list, rule{Name: o.Name, Program: o.Program, UDP: o.UDP})
	return nil
}

func TestParseRule(t *testing.T) {
	for text, want := range map[string]rule{
		`v2.29|Action=Allow|Active=TRUE|Dir=In|App=C:\k\kubelet.exe|Name=Porthole: kubelet.exe|`: {
			Name: "Porthole: kubelet.exe", Program: `C:\k\kubelet.exe`},
		`v2.30|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=10250|Name=kubelet|`: {
			Name: "kubelet", TCP: "10250"},
		`v2.30|Action=Block|Active=TRUE|Dir=In|App=C:\a.exe|Name=a|`: {Name: "a",
			Program: `C:\a.exe`, Limited: true},
		`v2.30|Action=Allow|Active=FALSE|Dir=In|App=C:\a.exe|Name=a|`: {Name: "a",
			Program: `C:\a.exe`, Limited: true},
		`v2.30|Action=Allow|Active=TRUE|Dir=In|Protocol=17|LPort=4789|Name=Porthole: VXLAN|`: {
			Name: "Porthole: VXLAN", UDP: "4789"},
		`v2.30|Action=Allow|Active=TRUE|Dir=In|Protocol=17|LPort=4789|RA4=10.0.0.1|Name=Porthole: VXLAN|`: {
			Name: "Porthole: VXLAN", UDP: "4789", Limited: true},
		`v2.30|Action=Allow|Active=TRUE|Dir=In|Protocol=17|Name=udp|`: {Name: "udp",
			Limited: true},
	} {
		if got, in := parseRule(text); got != want || !in {
			t.Errorf("%s\nis %+v", text, got)
		}
	}
	if _, in := parseRule(`v2.30|Action=Allow|Active=TRUE|Dir=Out|Name=a|`); in {
		t.Error("a rule for what goes out counts")
	}
}

// TestAddAndRemove: what is there is left alone, what is otherwise is made again, nothing else is touched.
func TestAddAndRemove(t *testing.T) {
	other := rule{Name: "somebody's", Program: `C:\k\kubelet.exe`}
	h := &fakeHost{list: []rule{other, {Name: "Porthole: kubelet.exe", Program: `c:\K\kubelet.exe`},
		{Name: "Porthole: kube-proxy.exe", Program: `C:\old\kube-proxy.exe`},
		{Name: "Porthole: porthole.exe", Program: `C:\k\porthole.exe`, Limited: true}}}
	add := options{verb: "add", programs: []string{`C:\k\kubelet.exe`, `C:\k\kube-proxy.exe`, `C:\k\porthole.exe`}}
	run := func(o options) string {
		t.Helper()
		var out strings.Builder
		if err := o.run(h, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}

	const want = `netsh advfirewall firewall delete rule name="Porthole: kube-proxy.exe"   (it is for C:\old\kube-proxy.exe)
netsh advfirewall firewall add rule name="Porthole: kube-proxy.exe" dir=in action=allow program=C:\k\kube-proxy.exe enable=yes
netsh advfirewall firewall delete rule name="Porthole: porthole.exe"   (it does not allow everything)
netsh advfirewall firewall add rule name="Porthole: porthole.exe" dir=in action=allow program=C:\k\porthole.exe enable=yes
`
	dry := add
	dry.dryRun = true
	if got := run(dry); got != want || h.calls != 0 {
		t.Errorf("%d calls; would do\n%s", h.calls, got)
	}
	if got := run(add); got != want || h.calls != 4 {
		t.Errorf("%d calls; did\n%s", h.calls, got)
	}
	if got := run(add); got != "nothing to do\n" {
		t.Errorf("the second time: %s", got)
	}

	var r report
	if err := json.Unmarshal([]byte(run(options{verb: "show", output: "json", programs: add.programs})),
		&r); err != nil || len(r.Rules) != 3 || len(r.Operations) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	run(options{verb: "remove", programs: add.programs})
	if !slices.Equal(h.list, []rule{other}) {
		t.Errorf("left: %v", h.list)
	}
	if got := run(options{verb: "show", programs: add.programs}); strings.Count(got,
		"missing or wrong: 'porthole firewall add'") != 3 {
		t.Errorf("shown:\n%s", got)
	}
}

// TestVXLAN: the rule of the overlay is made once, a narrower one is made again, and remove takes it away.
func TestVXLAN(t *testing.T) {
	for name, c := range map[string]struct {
		have []rule
		want string
	}{
		"none": {nil,
			"netsh advfirewall firewall add rule name=\"Porthole: VXLAN\" dir=in action=allow protocol=UDP localport=4789 enable=yes\n"},
		"there": {[]rule{{Name: "Porthole: VXLAN", UDP: "4789"}}, ""},
		"narrower": {[]rule{{Name: "Porthole: VXLAN", UDP: "4789", Limited: true}},
			"netsh advfirewall firewall delete rule name=\"Porthole: VXLAN\"   (it does not allow exactly UDP 4789)\nnetsh advfirewall firewall add rule name=\"Porthole: VXLAN\" dir=in action=allow protocol=UDP localport=4789 enable=yes\n"},
	} {
		var got strings.Builder
		for _, op := range planVXLAN(c.have) {
			got.WriteString(op.String() + "\n")
		}
		if got.String() != c.want {
			t.Errorf("%s:\n%s", name, got.String())
		}
		if ops := planRemove(c.have); len(ops) != len(c.have) {
			t.Errorf("%s: remove does %v", name, ops)
		}
	}
}

func TestRefused(t *testing.T) {
	h := &fakeHost{refuses: errors.New("Access is denied.")}
	err := options{verb: "add", programs: []string{`C:\k\kubelet.exe`}}.run(h, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "Porthole: kubelet.exe") ||
		!strings.Contains(err.Error(), "administrator") {
		t.Error(err)
	}
	if err := (options{verb: "show", output: "xml"}).run(h, &strings.Builder{}); err == nil {
		t.Error("-o xml was accepted")
	}
	if _, err := system(); err != nil && !strings.Contains(err.Error(), "Windows") {
		t.Error(err)
	}
}
