package cluster

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit"
)

// TestPreflightNamesThingAndCure: where nothing is built or installed, each message names what is missing and how to
// get it.
func TestPreflightNamesThingAndCure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run as root: the check for root comes first")
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	t.Setenv("PATH", t.TempDir())
	c := DefaultConfig()
	c.LinuxKubelet = KubeletUpstream
	c.APIPort = busy.Addr().(*net.TCPAddr).Port
	l := Layout{Dir: filepath.Join(t.TempDir(), "state"), Bin: t.TempDir()}
	err = Preflight(t.Context(), l, c)
	if err == nil {
		t.Fatal("an empty machine passed")
	}

	for _, want := range []string{"bundle/containerd is missing: `make build`",
		"bundle/kubelet, for --linux-kubelet upstream, is missing: `make upstream-kubelet`",
		"runc is missing: apt-get install runc", "nft is missing: apt-get install nftables", "--api-port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q:\n%v", want, err)
		}
	}
	if _, err := os.Stat(l.Dir); err == nil {
		t.Error("the check made the state folder")
	}
}

// TestPreflightUnfitWine: a Wine that cannot be mended is named, and no cluster without Windows nodes is in need of
// one.
func TestPreflightUnfitWine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run as root: the check for root comes first")
	}
	l := Layout{Dir: filepath.Join(t.TempDir(), "state"), Bin: t.TempDir()}
	if err := testkit.UnfitDLLs("..", filepath.Join(l.Bin, "windows", "dll")); err != nil {
		t.Skip(err)
	}
	c := DefaultConfig()
	for nodes, want := range map[int]bool{2: true, 0: false} {
		c.WindowsNodes = nodes
		err := Preflight(t.Context(), l, c)
		if !errors.Is(err, ErrNotReady) || strings.Contains(err.Error(), "registry ("+testkit.Unfit+")") != want {
			t.Errorf("%d Windows nodes: %v", nodes, err)
		}
	}
	if _, err := os.Stat(l.Dir); err == nil {
		t.Error("the check made the state folder")
	}
}

func TestConfigValidate(t *testing.T) {
	const both = "10.244.0.0/16,fd00:10:244::/48"
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"default":       {func(*Config) {}, ""},
		"no Linux node": {func(c *Config) { c.LinuxNodes = 0 }, "--linux-nodes 0"},
		"old build":     {func(c *Config) { c.WindowsBuild = "14393" }, "HCN"},
		"two builds":    {func(c *Config) { c.WindowsBuild = "20348,ltsc2025" }, ""},
		"an old one": {func(c *Config) { c.WindowsBuild = "20348,17134" },
			"17134 (Windows Server, version 1803) of Windows is too old"},
		"no build":        {func(c *Config) { c.WindowsBuild = "20348," }, "is no build of Windows"},
		"not emulated":    {func(c *Config) { c.WindowsBuild = "19041" }, "20348"},
		"unknown network": {func(c *Config) { c.Network = "ipip" }, "--network ipip"},
		"both families":   {func(c *Config) { c.PodCIDR = both }, ""},
		"overlay of IPv6": {func(c *Config) { c.PodCIDR, c.Network = both, "vxlan" },
			"mode vxlan carries IPv4 only: give ranges of IPv4 alone, or choose one of host-gateway, tor"},
		"Windows of old": {func(c *Config) { c.PodCIDR, c.WindowsBuild = both, "20348,17763" },
			"Windows of build 17763 has no networks with IPv6"},
		"two cards": {func(c *Config) { c.WindowsNIC = "10.98.0.0/24,gateway=10.98.0.1,metric=10" }, ""},
		"a host, no net": {func(c *Config) { c.WindowsNIC = "10.98.0.5/24" },
			"--windows-nic 10.98.0.5/24: give a subnet"},
		"a small net": {func(c *Config) { c.WindowsNIC = "10.98.0.0/28" }, "room for all nodes"},
		"no net": {func(c *Config) { c.WindowsNIC = "storage" },
			"--windows-nic: \"storage\" is not an address"},
		"the nodes' net": {func(c *Config) { c.WindowsNIC = "10.99.0.0/24" }, "overlaps with 10.99.0.0/24"},
		"the pods' net": {func(c *Config) { c.WindowsNIC, c.PodCIDR = "10.98.0.0/24", "10.98.0.0/16" },
			"overlaps with the range of the pods, 10.98.0.0/16"},
		"cards of OVN": {func(c *Config) { c.WindowsNIC, c.Network = "10.98.0.0/24", "ovn" },
			"have a second network card already"},
		"a node's own": {func(c *Config) { c.WindowsNIC, c.WindowsNodes = "10.98.0.0/24,gateway=10.98.0.22", 2 },
			"its gateway 10.98.0.22 must be another address"},
		"other adapter": {func(c *Config) { c.WindowsNIC, c.WindowsAdapter = "10.98.0.0/24", "Ethernet 2" }, ""},
		"no such adapter": {func(c *Config) { c.WindowsAdapter = "Ethernet 2" },
			"--windows-adapter \"Ethernet 2\": Windows nodes of this cluster have [\"Ethernet\"] only"},
		"kubelets alone": {func(c *Config) { c.WindowsKubeletOnly = true }, ""},
		"too many":       {func(c *Config) { c.WindowsNodes = 41 }, "--windows-nodes 41"},
	} {
		t.Run(name, func(t *testing.T) {
			config := DefaultConfig()
			c.change(&config)

			err := config.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestProcessesRefuse: ranges that are not valid, as in a cluster.json that somebody has written, are not replaced by
// others.
func TestProcessesRefuse(t *testing.T) {
	c := DefaultConfig()
	c.PodCIDR = "10.244.0.0"
	if list, err := Processes(Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian); err == nil ||
		!strings.Contains(err.Error(), "--pod-cidr 10.244.0.0") {
		t.Errorf("%d processes, %v", len(list), err)
	}
}

// TestProcessesArePure: the same input gives the same list, names are unique, and every process of a node names its
// node.
func TestProcessesArePure(t *testing.T) {
	l, c := Layout{Dir: "/d", Bin: "/b"}, DefaultConfig()
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
	l, c := Layout{Dir: "/d", Bin: "/b"}, DefaultConfig()
	list, err := Processes(l, c, wine.Debian)
	if err != nil {
		t.Fatal(err)
	}
	oneByOne(list, l, c)

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
	c := DefaultConfig()
	list, err := Processes(Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian)
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
	c := DefaultConfig()
	c.Supervisor = SuperviseServices
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	list, err := Processes(Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian)
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

// TestJoinNetwork: what the Windows nodes of each network are joined with.
func TestJoinNetwork(t *testing.T) {
	for network, want := range map[string]string{
		"host-gateway": "",
		"tor":          "",
		"vxlan":        "",
		"bgp":          ` --bgp-config=C:\porthole\bgp.yaml`,
		"ovn":          " --routes-extra-args=--ovn-remote=tcp:10.99.0.11:6642 --routes-extra-args=--ovn-encap-ip=10.98.0.21 --routes-extra-args=--ovn-datapath=netdev --routes-extra-args=--ovn-db=tcp:127.0.0.1:6640",
	} {
		c := DefaultConfig()
		c.Supervisor, c.Network = SuperviseServices, network
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", network, err)
		}
		n := c.Nodes()[len(c.Nodes())-c.WindowsNodes]
		if got := strings.Join(joinNetwork(Layout{Dir: "/d", Bin: "/b"}, c, n), " "); got != "--network "+network+want {
			t.Errorf("%s: %s", network, got)
		}
	}
}

// TestSupervisorRefuses: what `porthole join` does not do on Windows is refused by its flag.
func TestSupervisorRefuses(t *testing.T) {
	for flag, change := range map[string]func(*Config){
		"--supervisor systemd": func(c *Config) { c.Supervisor = "systemd" },
		"--windows-firewall":   func(c *Config) { c.WindowsFirewall = true },
		"--pod-cidr with IPv6": func(c *Config) { c.PodCIDR = "10.244.0.0/16,fd00:10:244::/48" },
	} {
		c := DefaultConfig()
		c.Supervisor = SuperviseServices
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestProcessesOfKubeletsOnly: Windows nodes have neither a service proxy nor routes of ours, and nobody waits for
// their network.
func TestProcessesOfKubeletsOnly(t *testing.T) {
	c := DefaultConfig()
	c.WindowsKubeletOnly = true
	list, err := Processes(Layout{Dir: "/d", Bin: "/b"}, c, wine.Debian)
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
	if nodes := c.networked(); len(nodes) != 1 || nodes[0].Name != "lin01" {
		t.Errorf("nodes with a network: %v", nodes)
	}
}

// TestFolderInUse: a second `up` or `down` on a folder neither waits nor works beside the first.
func TestFolderInUse(t *testing.T) {
	l := Layout{Dir: t.TempDir(), Bin: t.TempDir()}
	unlock, err := lock(l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(l); err == nil || !strings.Contains(err.Error(), l.Dir+" is in use") {
		t.Errorf("locking a folder twice: %v", err)
	}
	unlock()
	again, err := lock(l)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestProcessesOf: a process of another PID namespace, which a file cgroup.procs has as 0, is left alone.
func TestProcessesOf(t *testing.T) {
	if got := processesOf("12\n0\n345\n"); !slices.Equal(got, []int{12, 345}) {
		t.Errorf("processes %v", got)
	}
}

// TestListenElsewhere: an address that the machine has not is named, with the flag.
func TestListenElsewhere(t *testing.T) {
	err := portFree("--api-port", "203.0.113.1:6443")
	if err == nil || !strings.Contains(err.Error(), "203.0.113.1 is no address of this machine: --listen") {
		t.Error(err)
	}
}
