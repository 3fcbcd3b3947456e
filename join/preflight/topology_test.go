package preflight

import (
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/join/step"
)

// TestTopologies: each kind of cluster with what a node of each system can have there.
// Row 1.59.
func TestTopologies(t *testing.T) {
	vxlanAdvice := &Advice{Plugin: "flannel", Mode: vxlan, Why: "flannel's VXLAN has the VNI that Windows can use",
		Flags: []string{"--mode=vxlan", "--vxlan-vni=4096"}}
	for name, c := range map[string]struct {
		spoil func(*Facts)
		// of Linux and of Windows: the topologies that join sets up, and those that need something else first
		linux, windows string
		text           map[string]string // part of the text by topology, of Windows
	}{
		"no network yet": {func(f *Facts) { f.Cluster.Network.Known = true }, "host-gateway none tor vxlan bgp | ",
			"host-gateway tor vxlan bgp | ",
			map[string]string{flannel: "flanneld runs on Linux nodes only", ovn: "the cluster does not have OVN",
				none: "no DaemonSet makes the HNS network"}},
		"ours": {func(f *Facts) { f.Cluster.Network.Declared = hostGateway }, "host-gateway none | ", "host-gateway | ",
			map[string]string{
				vxlan: "the nodes of this cluster have the mode host-gateway (ConfigMap kube-system/porthole)"}},
		"ours with vxlan": {func(f *Facts) { f.Cluster.Network.Declared = vxlan }, "none vxlan | ", "vxlan | ",
			map[string]string{hostGateway: "have the mode vxlan", vxlan: "--network vxlan"}},
		"nothing may be read": {func(*Facts) {}, "none | ", " | ",
			map[string]string{hostGateway: "the token may not list nodes"}},
		"flannel host-gw": {func(f *Facts) { f.Cluster.Network = Network{Known: true, Kind: "flannel host-gw"} },
			"flannel none | ", "host-gateway | ",
			map[string]string{hostGateway: "takes this node's routes",
				vxlan: "the cluster's network is flannel host-gw"}},
		"flannel vxlan": {func(f *Facts) {
			f.Cluster.Network = Network{Known: true, Kind: "flannel vxlan", Advice: vxlanAdvice}
		}, "flannel none | vxlan", "vxlan | ",
			map[string]string{hostGateway: "the cluster's network is flannel vxlan",
				vxlan: "--network vxlan --routes-extra-args=--vxlan-vni=4096"}},
		"flannel that Windows cannot join": {func(f *Facts) {
			f.Cluster.Network = Network{Known: true, Kind: "flannel vxlan",
				Advice: &Advice{Plugin: "flannel", Why: "VNI 1 is below 4096", Change: []string{`"VNI": 4096`}}}
		}, "flannel none | ", " | ", map[string]string{vxlan: `"VNI": 4096`}},
		"Calico": {func(f *Facts) { f.Cluster.Network = Network{Known: true, Kind: "Calico"} }, "none | ", " | ",
			map[string]string{bgp: "the cluster's network is Calico"}},
		"Calico with BGP": {func(f *Facts) {
			f.Cluster.Network = Network{Known: true, Kind: "Calico",
				Advice: &Advice{Plugin: "calico", Mode: bgp, Why: "Calico is without encapsulation",
					Flags: []string{"--mode=bgp", "--bgp-config=FILE"}}}
		}, "none | bgp", "bgp | ", map[string]string{bgp: "--network bgp --bgp-config=FILE"}},
		"a plugin without annotations": {func(f *Facts) {
			f.Cluster.Network = Network{Known: true, Advice: &Advice{Plugin: "kube-router"}}
		}, "none | ", " | ",
			map[string]string{hostGateway: "the cluster's network is kube-router"}},
		"two segments": {func(f *Facts) {
			f.Cluster.Network = Network{Known: true, Remote: []string{"lin02 (10.1.0.2)"}}
		}, "none tor vxlan bgp | ", "tor vxlan bgp | ",
			map[string]string{hostGateway: "these are not: lin02 (10.1.0.2)"}},
		"no pod ranges": {func(f *Facts) { f.Cluster.Network.Known, f.Cluster.PodSubnet = true, "" }, "none | ", " | ",
			map[string]string{hostGateway: "the cluster gives nodes no pod ranges", bgp: "no pod ranges"}},
		"IPv6 alone": {func(f *Facts) { f.Cluster.Network.Known, f.Cluster.PodSubnet = true, "fd00::/48" }, "none | ",
			" | ",
			map[string]string{vxlan: "carries IPv4, alone or beside IPv6"}},
		"both families": {func(f *Facts) {
			f.Cluster.Network.Known, f.Cluster.PodSubnet = true, "10.244.0.0/16,fd00::/48"
		}, "host-gateway none tor | ", "host-gateway tor | ",
			map[string]string{vxlan: "it carries IPv4 only"}},
		"OVN": {func(f *Facts) { f.Cluster.Network = Network{Known: true, Kind: "OVN-Kubernetes"} }, "none | ovn",
			"ovn | ",
			map[string]string{hostGateway: "the cluster's network is OVN-Kubernetes"}},
		"OVN of ours": {func(f *Facts) { f.Cluster.Network = Network{Known: true, Declared: ovn} }, "none ovn | ",
			"ovn | ", map[string]string{ovn: "--ovn-remote=tcp:"}},
		"out of reach": {func(f *Facts) { f.Cluster.Problem = &Problem{"ApiServer", "connection refused", ""} }, " | ",
			" | ", map[string]string{bgp: "connection refused"}},
	} {

		t.Run(name, func(t *testing.T) {
			for system, want := range map[string]string{"linux": c.linux, "windows": c.windows} {
				f := good(system)
				c.spoil(f)
				list := Topologies(f)
				if got := named(list, Yes) + " | " + named(list, Manual); got != want || len(list) != 7 {
					t.Errorf("%s: %q, want %q", system, got, want)
				}
				for _, topology := range list {
					if topology.Why == "" {
						t.Errorf("%s: %s has no reason", system, topology.Name)
					}
					if text := topology.Why + topology.Do; system == "windows" &&
						!strings.Contains(text, c.text[topology.Name]) {
						t.Errorf("%s: %s, want %q", topology.Name, text, c.text[topology.Name])
					}
				}
				agrees(t, f, list)
			}
		})
	}
}

func named(list []step.Topology, result string) string {
	var names []string
	for _, t := range list {
		if t.Result == result {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, " ")
}

// agrees: join refuses what the plan says no to, and takes the others.
func agrees(t *testing.T, f *Facts, list []step.Topology) {
	t.Helper()
	for _, topology := range list {
		if topology.Result == Unknown || topology.Name == none || topology.Name == flannel && f.System == "windows" {
			continue
		}
		f.Cluster.Network.Wanted = topology.Name
		checks := Run(f, nil)
		c := checks[slices.IndexFunc(checks, func(c step.Check) bool { return c.Name == "ClusterNetwork" })]
		// flannel may come later
		if topology.Name == flannel && topology.Result == No && f.Cluster.Network.plugin() == "" {
			continue
		}
		if (c.Result == Pass) != (topology.Result != No) {
			t.Errorf("%s: the plan says %s of %s, and the check %s: %s", f.System, topology.Result, topology.Name,
				c.Result, Line(c))
		}
	}
}
