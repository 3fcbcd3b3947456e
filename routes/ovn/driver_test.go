package ovn

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckDriver(t *testing.T) {
	for name, c := range map[string]struct {
		driver driver
		want   []string // none: no error
	}{
		"installed":     {driver{Installed: true, Start: 1}, nil},
		"by hand":       {driver{Installed: true, Start: 3}, nil},
		"not installed": {driver{}, []string{"not installed", "OVSExt", "install.cmd", "TESTSIGNING", "--mode vxlan"}},
		"disabled":      {driver{Installed: true, Start: 4}, []string{"disabled", "sc.exe config OVSExt start= system"}},
		"not readable":  {driver{Err: errors.New("access is denied")}, []string{"not known", "access is denied"}},
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
