package plan

import (
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
)

// TestProcessesRefuse: ranges that are not valid, as in a cluster.json that somebody has written, are not replaced by
// others.
func TestProcessesRefuse(t *testing.T) {
	c := config.Default()
	c.PodCIDR = "10.244.0.0"
	if list, err := Processes(layout.Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian); err == nil ||
		!strings.Contains(err.Error(), "--pod-cidr 10.244.0.0") {
		t.Errorf("%d processes, %v", len(list), err)
	}
}

// TestProcessesArePure: the same input gives the same list, names are unique, and every process of a node names its
// node.
func TestProcessesArePure(t *testing.T) {
	l, c := layout.Layout{Dir: "/d", Bin: "/b"}, config.Default()
	first, err := Processes(l, c, wine.Debian)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Processes(l, c, wine.Debian)
	if err != nil || len(first) != len(second) {
		t.Fatalf("two calls give different lists: %v", err)
	}

	seen := map[string]bool{}
	for i, p := range first {
		if seen[p.Name] {
			t.Errorf("two processes are called %s", p.Name)
		}
		seen[p.Name] = true
		if strings.Join(p.Args, " ") != strings.Join(second[i].Args, " ") {
			t.Errorf("%s has other arguments the second time", p.Name)
		}
		if node, _, ok := strings.Cut(p.Name, "/"); ok &&
			(p.Node != node || !strings.HasSuffix(p.Netns, "porthole-"+node)) {
			t.Errorf("%s is of node %q in %s", p.Name, p.Node, p.Netns)
		}
		if p.Path == wine.Starter && p.Follows != p.Node+"/wineserver" {
			t.Errorf("%s follows %q", p.Name, p.Follows)
		}
	}

	for _, want := range []string{"controlplane", "lin01/kubelet", "win02/kube-proxy", "win01/hnsd"} {
		if !seen[want] {
			t.Errorf("no process %s", want)
		}
	}
}

// TestOneByOne: on a slow machine the processes of a node wait for the control plane or for the node before it,
// metrics-server waits for the last node, and the others wait for nothing.
func TestOneByOne(t *testing.T) {
	l, c := layout.Layout{Dir: "/d", Bin: "/b"}, config.Default()
	list, err := Processes(l, c, wine.Debian)
	if err != nil {
		t.Fatal(err)
	}
	OneByOne(list, l, c)

	want := map[string]string{"lin01": "/d/run/applied", "win01": "/d/run/ready-lin01", "win02": "/d/run/ready-win01",
		"metrics-server": "/d/run/ready-win02"}
	for _, p := range list {
		node, _, _ := strings.Cut(p.Name, "/")
		when := supervise.Condition{Path: want[node]}
		if waits := slices.Contains(p.WaitFor, when); waits != (want[node] != "") {
			t.Errorf("%s waits for %q: %t, want %t", p.Name, when.Path, waits, !waits)
		}
	}
}

// TestProcessesOfContainerdExe: Windows nodes have containerd.exe and the Host Compute Service, and no service
// manager; Linux nodes have neither.
func TestProcessesOfContainerdExe(t *testing.T) {
	c := config.Default()
	list, err := Processes(layout.Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]supervise.Process{}
	for _, p := range list {
		found[p.Name] = p
	}
	for _, name := range []string{"win01/scm", "lin01/hcsd"} {
		if _, ok := found[name]; ok {
			t.Errorf("there is a process %s", name)
		}
	}
	runtime := found["win02/containerd"]
	if runtime.Path != wine.Starter || runtime.Follows != "win02/wineserver" || len(runtime.WaitFor) != 1 ||
		runtime.WaitFor[0].TCP != wire.HCSAddress {
		t.Errorf("containerd of win02: %+v", runtime)
	}
	if kubelet := found["win02/kubelet"]; len(kubelet.WaitFor) != 2 || kubelet.WaitFor[0].TCP != wire.HCSAddress {
		t.Errorf("the kubelet of win02 waits for %+v", kubelet.WaitFor)
	}
}

// TestProcessesOfServices: with --supervisor services Windows nodes have a service manager, which starts all that is
// not part of the host.
func TestProcessesOfServices(t *testing.T) {
	c := config.Default()
	c.Supervisor = config.SuperviseServices
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	list, err := Processes(layout.Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list {
		if p.Node == "win01" {
			names = append(names, p.Name)
		}
	}
	if want := []string{"win01/wineserver", "win01/hnsd", "win01/hcsd", "win01/scm"}; !slices.Equal(names, want) {
		t.Errorf("processes %q, want %q", names, want)
	}
}

// TestProcessesOfKubeletsOnly: Windows nodes have neither a service proxy nor routes of ours, and nobody waits for
// their network.
func TestProcessesOfKubeletsOnly(t *testing.T) {
	c := config.Default()
	c.WindowsKubeletOnly = true
	list, err := Processes(layout.Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, p := range list {
		found[p.Name] = true
	}
	for name, want := range map[string]bool{"win01/kubelet": true, "win02/containerd": true, "lin01/routes": true,
		"win01/routes": false, "win02/kube-proxy": false} {
		if found[name] != want {
			t.Errorf("process %s: %t, want %t", name, found[name], want)
		}
	}
	if nodes := c.Networked(); len(nodes) != 1 || nodes[0].Name != "lin01" {
		t.Errorf("nodes with a network: %v", nodes)
	}
}
