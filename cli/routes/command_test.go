package routes

import (
	"strings"
	"testing"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/vxlan"
)

func valid() flags {
	return flags{kubeconfig: "kubeconfig", ranges: program.Ranges{Pods: "10.244.0.0/16", Services: "10.96.0.0/16"},
		mode: routes.DefaultMode}
}

func hostname() (string, error) { return "WIN01\n", nil }

func TestResolve(t *testing.T) {
	f := valid()
	f.replaceNetwork = true
	o, err := f.resolve(hostname)
	if err != nil {
		t.Fatal(err)
	}
	if o.Node != "win01" || o.Mode != "host-gateway" || !o.ReplaceNetwork || o.Cluster.String() != "10.244.0.0/16" {
		t.Errorf("options %+v", o)
	}
}

// Rows 1.46, 1.56.
func TestResolveRefuses(t *testing.T) {
	for want, change := range map[string]func(*flags){
		"--kubeconfig is required":                      func(f *flags) { f.kubeconfig = "" },
		"--cluster-cidr is required":                    func(f *flags) { f.ranges.Pods = "" },
		"--service-cidr \"10.96\" is not an IPv4 range": func(f *flags) { f.ranges.Services = "10.96" },
		"overlap":                           func(f *flags) { f.ranges.Services = "10.244.128.0/20" },
		"--node-ip \"x\" is not an address": func(f *flags) { f.nodeIP = "x" },
		"--mode \"vpn\" is not known; known: host-gateway":            func(f *flags) { f.mode = "vpn" },
		"Windows has no IP-in-IP: use `porthole routes --mode vxlan`": func(f *flags) { f.mode = "ipip" },
		"--cluster-cidr 10.244.0.0/16,fd00:10:244::/48: mode bgp carries IPv4 only": func(f *flags) {
			f.mode, f.ranges.Pods, f.ranges.Services = "bgp", "10.244.0.0/16,fd00:10:244::/48",
				"10.96.0.0/16,fd00:10:96::/112"
		},
		"must both have a range of IPv6": func(f *flags) {
			f.ranges.Pods = "10.244.0.0/16,fd00:10:244::/48"
		},
		"Weave ended": func(f *flags) { f.mode = "weave" },
		"--mode kubenet: kubenet is no CNI plugin":  func(f *flags) { f.mode = "kubenet" },
		"--vxlan-hybrid-overlay needs --mode vxlan": func(f *flags) { f.vxlanHybrid = true },
	} {
		f := valid()
		change(&f)
		if _, err := f.resolve(hostname); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestHybridOverlay: the VNI is OVN-Kubernetes' own, and Linux nodes are none of ours.
func TestHybridOverlay(t *testing.T) {
	for _, c := range []struct {
		name    string
		vni     uint32
		windows bool
		want    string // of the error
	}{
		{"no VNI chosen", vxlan.Default.VNI, true, ""},
		{"its VNI chosen", 4097, true, ""},
		{"another VNI", 5000, true, "VNI 5000: the hybrid overlay of OVN-Kubernetes has 4097"},
		{"Linux", vxlan.Default.VNI, false, "is for Windows nodes"},
	} {
		f := valid()
		f.mode, f.vxlanHybrid, f.vxlanVNI, f.vxlanPort = vxlan.BackendType, true, c.vni, vxlan.Port
		o, err := f.overlay(c.windows)
		if err == nil {
			err = o.Validate()
		}
		if c.want == "" && (err != nil || o.VNI != 4097 || !o.Hybrid) ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %+v, %v; want %q", c.name, o, err, c.want)
		}
	}
}

// The help lists every mode, from the one table of them.
func TestHelpListsModes(t *testing.T) {
	help := Command(nil).Flags().FlagUsages()
	for _, mode := range routes.Modes() {
		if !strings.Contains(help, mode) {
			t.Errorf("the help does not name the mode %s:\n%s", mode, help)
		}
	}
}
