package kubelet

import (
	"strings"
	"testing"
	"testing/fstest"

	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/numa"
)

// TestTopology: the options of the topology manager, in upstream's words.
func TestTopology(t *testing.T) {
	many := &numa.Machine{Nodes: make([]numa.Node, 9)}
	for want, c := range map[string]struct {
		policy, option, value string
		machine               *numa.Machine
	}{
		"": {"restricted", "prefer-closest-numa-nodes", "true", &numa.Machine{}},
		`unknown Topology Manager Policy option: "x"`: {"restricted", "x",
			"true", &numa.Machine{}},
		`bad value for option "prefer-closest-numa-nodes"`: {"restricted",
			"prefer-closest-numa-nodes", "soon", &numa.Machine{}},
		`the minimum value of "max-allowable-numa-nodes" should not be less than 8`: {"restricted",
			"max-allowable-numa-nodes", "7", &numa.Machine{}},
		`unable to convert policy option to integer "max-allowable-numa-nodes"`: {"restricted",
			"max-allowable-numa-nodes", "x", &numa.Machine{}},
		"unsupported on machines with more than 8 NUMA Nodes": {"restricted",
			"prefer-closest-numa-nodes", "false", many},
		"unsupported on machines with more than 8 NUMA Nodes but for those with the option": {"restricted",
			"max-allowable-numa-nodes", "9", many},
		"unsupported on machines with more than 8 NUMA Nodes but for those without a policy": {"none", "x", "", many},
	} {
		cfg := &v1beta1.KubeletConfiguration{TopologyManagerPolicy: c.policy, TopologyManagerScope: "pod",
			TopologyManagerPolicyOptions: map[string]string{c.option: c.value}}

		got, err := topology(cfg, c.machine)
		if want == "" || strings.Contains(want, "but for") {
			if err != nil || !got.WholePod || got.Closest != (want == "") {
				t.Errorf("%s=%s: %+v, %v", c.option, c.value, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v, want %s", c.option, c.value, err, want)
		}
	}
}

// TestUnreadableMachine: a machine without the files about its processors is a node, unless somebody is to get some
// alone there.
func TestUnreadableMachine(t *testing.T) {
	if platform.IsWindows {
		t.Skip("Linux")
	}
	cfg := &v1beta1.KubeletConfiguration{CPUManagerPolicy: "none", MemoryManagerPolicy: "None",
		TopologyManagerPolicy: "none"}
	if m, err := readMachine(t.Context(), cfg, fstest.MapFS{}, platform.Host{}); m != nil || err != nil {
		t.Errorf("without policies: %+v, %v", m, err)
	}

	for _, set := range []func(*v1beta1.KubeletConfiguration){
		func(c *v1beta1.KubeletConfiguration) { c.CPUManagerPolicy = "static" },
		func(c *v1beta1.KubeletConfiguration) { c.MemoryManagerPolicy = "Static" },
		func(c *v1beta1.KubeletConfiguration) { c.TopologyManagerPolicy = "best-effort" },
		func(c *v1beta1.KubeletConfiguration) { c.ReservedSystemCPUs = "0" },
	} {
		wants := *cfg
		set(&wants)
		if _, err := readMachine(t.Context(), &wants, fstest.MapFS{}, platform.Host{}); err == nil ||
			!strings.Contains(err.Error(), "reading which processors are online") {
			t.Errorf("%+v: %v", wants, err)
		}
	}
}

// TestReservedCPUs: reservedSystemCPUs goes before what else the configuration reserves of processors.
func TestReservedCPUs(t *testing.T) {
	m := &numa.Machine{CPUs: map[int]numa.Place{0: {}, 1: {}, 2: {}, 3: {}}}
	kube := map[string]string{"cpu": "1", "memory": "1Gi"}
	cfg := &v1beta1.KubeletConfiguration{ReservedSystemCPUs: "0,2-3", KubeReserved: kube}
	if set, err := reserveCPUs(cfg, m); err != nil || set.String() != "0,2-3" || cfg.SystemReserved["cpu"] != "3" ||
		cfg.KubeReserved["cpu"] != "" || cfg.KubeReserved["memory"] != "1Gi" || kube["cpu"] != "1" {
		t.Errorf("%s, %v, %v, %v", set, err, cfg.SystemReserved, cfg.KubeReserved)
	}
	cfg.ReservedSystemCPUs = "7"
	if _, err := reserveCPUs(cfg, m); err == nil ||
		err.Error() != "reserved-cpus: 7 is not a subset of online-cpus: 0-3" {
		t.Error(err)
	}
}
