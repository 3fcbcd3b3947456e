package preflight

import (
	"errors"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/join/step"
)

// good are the facts of a machine on which every check passes.
func good(system string) *Facts {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f := &Facts{System: system, Privileged: true, Node: "win07", Hostname: "WIN07",
		InstallDir: `C:\Program Files\Porthole`,
		Adapters:   []Adapter{{Name: "Ethernet", Address: "10.0.0.7", MAC: "00:15:5d:00:00:07"}},
		Runtime:    Runtime{Endpoint: "npipe:////./pipe/containerd-containerd", Version: "containerd://2.3.6"},
		Disk:       []Space{{`C:\`, 100 * gib, "install"}, {`C:\`, 100 * gib, "containers"}}, Memory: 8 * gib,
		Cluster: Cluster{Server: "https://10.0.0.1:6443", SkewKnown: true, Now: now, NotBefore: now.Add(-time.Hour),
			NotAfter: now.Add(time.Hour * 9999),
			Version:  "v1.36.3", KubeletVers: "v1.36.3", PodSubnet: "10.244.0.0/16", ServiceSubnet: "10.96.0.0/16",
			UUID: "A", Network: Network{Wanted: "host-gateway"}}}
	if system == "windows" {
		f.Windows = &WindowsFacts{Build: 20348, Path: `C:\p\porthole.exe`}
	} else {
		f.Linux = &LinuxFacts{CgroupV2: true, Controllers: []string{"cpu", "memory", "pids"}, Forwarding: "1",
			Conntrack: true, Systemd: true}
	}
	return f
}

func TestGood(t *testing.T) {
	for _, system := range []string{"windows", "linux"} {
		list := Run(good(system), nil)
		for _, c := range list {
			if c.Result != Pass {
				t.Errorf("%s: %s", system, Line(c))
			}
		}
		if Outcome(list) != "" || len(list) != len(Names(system)) {
			t.Errorf("%s: outcome %q, %d checks", system, Outcome(list), len(list))
		}
	}
}

// TestChecks has the text of each check that can fail.
// Rows 1.05, 1.09, 1.17, 1.40, 1.84, 1.85, 1.115, 1.117, 1.119, 1.120.
func TestChecks(t *testing.T) {
	for _, try := range []struct {
		system, check string
		spoil         func(*Facts)
		result, text  string // of the line
	}{
		{"windows", "IsPrivilegedUser", func(f *Facts) { f.Privileged = false }, Error,
			`joining needs an elevated prompt → start it with "Run as administrator"`},
		{"linux", "IsPrivilegedUser", func(f *Facts) { f.Privileged = false }, Error,
			"joining needs root → sudo porthole join …"},
		{"windows", "WindowsBuild",
			func(f *Facts) { f.Windows.Build, f.Windows.Product = 14393, "Windows Server 2016" }, Error,
			"Windows build 14393 (Windows Server 2016) cannot be a node: no HNS v2 → Server 2019 (17763), 2022 (20348) or 2025 (26100)"},
		{"windows", "WindowsBuild", func(f *Facts) { f.Windows.Build = 27000 }, Warning, "newer than those"},
		{"windows", "ContainersFeature", func(f *Facts) { f.Windows.NoService = []string{"hns"} }, Error,
			"the Windows feature Containers is not installed (there is no hns) → Install-WindowsFeature Containers, then restart"},
		{"windows", "ContainersFeature",
			func(f *Facts) { f.Windows.NoService, f.Windows.Pending = []string{"hns"}, []string{"Containers"} }, Reboot,
			"takes effect after a restart"},
		{"windows", "RebootPending", func(f *Facts) { f.Windows.Pending = []string{"Windows Update"} }, Reboot,
			"Windows waits for a restart: Windows Update"},
		{"windows", "RebootPending", func(f *Facts) { f.Windows.LaterRename = true }, Warning,
			"PendingFileRenameOperations"},
		{"windows", "Hns", func(f *Facts) { f.Windows.HNS = errors.New("0x803b0027") }, Error,
			"HNS does not answer: 0x803b0027 → Restart-Service hns"},
		{"windows", "Nic", func(f *Facts) {
			f.Adapters = append(f.Adapters, Adapter{Name: "Ethernet 2", Address: "10.98.0.7"})
		}, Error,
			"2 adapters have a default route: Ethernet (10.0.0.7), Ethernet 2 (10.98.0.7) → --nic NAME"},
		{"windows", "Nic", func(f *Facts) { f.NIC = "Ethernet 3" }, Error,
			"there is no adapter Ethernet 3 with a default route → --nic with one of Ethernet (10.0.0.7)"},
		{"linux", "CRI", func(f *Facts) {
			f.Runtime.Endpoint = "unix:///var/run/dockershim.sock"
			f.Runtime.Err = errors.New("no such file")
		}, Error, "Docker is no container runtime of Kubernetes since 1.24"},
		{"linux", "CRI", func(f *Facts) { f.Runtime.Err = errors.New("no such file") }, Error,
			"does not answer: no such file → start containerd"},
		{"windows", "ExistingKubelet", func(f *Facts) { f.Kubelet.Program = `C:\nssm\nssm.exe` }, Error,
			`service kubelet belongs to C:\nssm\nssm.exe → sc.exe delete kubelet`},
		{"linux", "ExistingKubelet", func(f *Facts) { f.Kubelet.Program = "/usr/bin/kubelet" }, Error,
			"service kubelet belongs to /usr/bin/kubelet → systemctl disable --now kubelet, and remove its package"},
		{"windows", "Firewall", func(f *Facts) {
			f.Windows.Firewall = "a group policy ignores the firewall rules of this host (DomainProfile)"
		}, Warning,
			"→ allow TCP 10250 and 10256 by the policy that forbids local rules"},
		{"windows", "TestSigning", func(f *Facts) { f.Windows.TestSigning = true }, Warning, "test signing is on"},
		{"windows", "Rras", func(f *Facts) { f.Windows.RemoteAccess = true }, Warning,
			"the pod network does not need it"},
		{"linux", "Conntrack", func(f *Facts) { f.Linux.Conntrack = false }, Warning, "→ modprobe nf_conntrack"},
		{"linux", "ServiceManager", func(f *Facts) { f.Linux.Systemd = false }, Warning,
			"no supported init system detected"},
		{"linux", "HTTPProxy", func(f *Facts) { f.Proxies = []string{"http://10.9.9.9:3128"} }, Warning,
			"Connection to the API server uses proxy http://10.9.9.9:3128"},
		{"linux", "CloudMetadata", func(f *Facts) { f.Cloud = CloudOf("Amazon EC2", "m5.large", "") }, Warning,
			"the source/destination check of this instance must be off"},
		{"windows", "CloudMetadata", func(f *Facts) {
			f.Cloud = CloudOf("Microsoft Corporation", "Virtual Machine", "7783-7084-3265-9085-8269-3286-77")
		}, Warning, "this is a machine of azure"},
		{"windows", "PauseImage", func(f *Facts) { f.Windows.PauseImage = "pause:3.9 has no image for build 26100" },
			Warning, "pause:3.9 has no image for build 26100 → sandboxImage"},
		{"linux", "FileAvailable--etc-kubernetes-kubelet.conf",
			func(f *Facts) { f.Joined = &Joined{Node: "win07", Server: "https://10.9.9.9:6443"} }, Error,
			"this machine is already node win07 of https://10.9.9.9:6443 → porthole leave"},
		{"linux", "Port-10250", func(f *Facts) { f.Ports = []Port{{Number: 10250, PID: 812, Program: "/usr/bin/nc"}} },
			Error, "port 10250 is in use by /usr/bin/nc (pid 812)"},
		{"windows", "Hostname", func(f *Facts) { f.Node, f.Hostname = "win_07", "WIN_07" }, Error,
			"WIN_07 cannot be the name of a node"},
		{"windows", "Hostname", func(f *Facts) { f.Node, f.Hostname = "win_07", "WIN_07" }, Error,
			"→ --node-name win-07"},
		{"linux", "DiskSpace", func(f *Facts) { f.Disk[0].Free = gib }, Error, "1.0 GiB are free"},
		{"linux", "DiskSpace", func(f *Facts) { f.Disk[1].Free = 10 * gib }, Warning,
			"images of containers need 20 GiB"},
		{"linux", "Memory", func(f *Facts) { f.Memory = gib }, Warning, "1.0 GiB of memory"},
		{"windows", "Path", func(f *Facts) { f.Windows.NetworkPath = true }, Error, "network drive"},
		{"windows", "Path", func(f *Facts) { f.Windows.Path = strings.Repeat("x", 201) }, Error, "201 characters"},
		{"windows", "OldEnvironment", func(f *Facts) { f.Windows.Environment = []string{"KUBE_NETWORK"} }, Warning,
			"KUBE_NETWORK have no effect"},
		{"linux", "Swap", func(f *Facts) { f.Linux.SwapBytes, f.Linux.FailSwapOn = 1, true }, Error, "swapoff -a"},
		{"linux", "SystemVerification", func(f *Facts) { f.Linux.CgroupV2, f.Linux.FailV1 = false, true }, Error,
			"failCgroupV1: true"},
		{"linux", "SystemVerification", func(f *Facts) { f.Linux.Controllers = []string{"cpu", "pids"} }, Error,
			"lacks the cgroup controllers memory"},
		{"linux", "FileContent--proc-sys-net-ipv4-ip_forward", func(f *Facts) { f.Linux.Forwarding = "0" }, Error,
			"contents are not set to 1"},
		{"linux", "ApiServer", func(f *Facts) {
			f.Cluster.Problem = &Problem{"ApiServer", "cannot reach https://10.0.0.1:6443: connection refused", ""}
		}, Error, "connection refused"},
		{"linux", "Discovery", func(f *Facts) { f.Cluster.Problem = &Problem{"Discovery", "wrong", "cure"} }, Error,
			"Discovery: wrong → cure"},
		{"linux", "Clock", func(f *Facts) { f.Cluster.Skew = -10*time.Minute - 4*time.Second }, Error,
			"this machine's clock is 10m4s behind the API server's → set the time"},
		{"linux", "Clock", func(f *Facts) { f.Cluster.Skew = -90 * time.Second }, Warning,
			"this machine is 90 s behind the API server"},
		{"linux", "Clock", func(f *Facts) { f.Cluster.Skew = 10 * time.Minute }, Error,
			"10m0s ahead of the API server's"},
		{"linux", "Clock", func(f *Facts) {
			f.Cluster.Skew, f.Cluster.NotBefore = -2*time.Minute, f.Cluster.Now.Add(-time.Minute)
		}, Error, "certificates are not valid"},
		{"linux", "KubeletVersion", func(f *Facts) { f.Cluster.Version = "v1.34.4" }, Warning,
			"kubelet v1.36.3 is newer than the API server v1.34.4; Kubernetes does not support that"},
		{"linux", "KubeletVersion", func(f *Facts) { f.Cluster.Version = "v1.33.1" }, Error,
			"upgrade the control plane"},
		{"linux", "KubeletVersion", func(f *Facts) { f.Cluster.Version = "v1.40.0" }, Error,
			"more than 3 minor versions older"},
		{"linux", "NodeName", func(f *Facts) { f.Cluster.Existing = &ExistingNode{Ready: true, UUID: "A"} }, Error,
			`a Node with name "win07" and status "Ready" already exists in the cluster. You must delete the existing Node or change the name of this new joining Node`},
		{"linux", "NodeName", func(f *Facts) { f.Cluster.Existing = &ExistingNode{UUID: "B"} }, Error,
			"→ kubectl delete node win07"},
		{"linux", "NodeName", func(f *Facts) { f.Cluster.Existing = &ExistingNode{UUID: "a"} }, Pass,
			"node win07 is taken over"},
		{"linux", "ClusterNetwork", func(f *Facts) { f.Cluster.PodSubnet = "" }, Error,
			"kubeadm-config has no networking.podSubnet: nodes get no pod range → kubeadm init --pod-network-cidr"},
		{"linux", "ClusterNetwork", func(f *Facts) { f.Cluster.Network.Kind = "flannel vxlan" }, Error,
			"the cluster's network is flannel vxlan; this node would speak host-gateway"},
		{"linux", "ClusterNetwork", func(f *Facts) { f.Cluster.Network.Remote = []string{"lin02 (10.1.0.2)"} }, Error,
			"lin02 (10.1.0.2)"},
		{"linux", "ClusterNetwork", func(f *Facts) {
			f.Joined = &Joined{Node: f.Node, CAHash: f.Cluster.CAHash, Server: f.Cluster.Server, Network: "vxlan"}
		}, Error, "this node has the network vxlan, and cannot change to host-gateway"},
		{"windows", "ClusterNetwork",
			func(f *Facts) { f.Cluster.Network.Kind, f.Cluster.Network.Wanted = "flannel vxlan", vxlan }, Pass, ""},
		{"linux", "ClusterNetwork",
			func(f *Facts) { f.Cluster.Network.Kind, f.Cluster.Network.Wanted = "flannel vxlan", vxlan }, Error,
			"this node would speak vxlan"},
		{"windows", "ClusterNetwork", func(f *Facts) { f.Cluster.Network.Known, f.Cluster.Network.Wanted = true, ovn },
			Error, "this node cannot have the network ovn: the cluster does not have OVN"},
		{"linux", "OpenVSwitch", func(f *Facts) { f.OpenVSwitch = errors.New("no such file") }, Error,
			"its database does not answer: no such file → install and start them"},
		{"linux", "Rbac", func(f *Facts) { f.Cluster.Forbidden = []string{"list endpointslices"} }, Error,
			"nodes may not list endpointslices → porthole manifests | kubectl apply -f -"},
	} {
		t.Run(try.check+"/"+try.text, func(t *testing.T) {
			f := good(try.system)
			try.spoil(f)
			list := Run(f, nil)

			i := slices.IndexFunc(list, func(c step.Check) bool { return c.Name == try.check })
			if got := list[i]; got.Result != try.result || !strings.Contains(Line(got), try.text) {
				t.Errorf("%s: %s\nwant %s: … %s", got.Result, Line(got), try.result, try.text)
			}
			for n, c := range list {
				if n != i && c.Result == Error {
					t.Errorf("%s fails too: %s", c.Name, Line(c))
				}
			}
		})
	}
}

func TestIgnore(t *testing.T) {
	f := good("linux")
	f.Runtime.Err, f.Linux.Forwarding, f.Privileged = errors.New("away"), "0", false
	list := Run(f, []string{"cri", "FileContent--proc-sys-net-ipv4-ip_forward", "IsPrivilegedUser"})
	got := map[string]string{}
	for _, c := range list {
		got[c.Name] = c.Result
	}
	if got["CRI"] != Ignored || got["FileContent--proc-sys-net-ipv4-ip_forward"] != Ignored ||
		got["IsPrivilegedUser"] != Error || Outcome(list) != step.Refused {
		t.Errorf("%v", got)
	}
}

func TestNetworkOf(t *testing.T) {
	node := func(name, ip string, annotations map[string]string) v1.Node {
		return v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}}}}
	}
	links := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
	kind, remote := NetworkOf([]v1.Node{
		// this machine itself
		node("win07", "10.7.0.1", map[string]string{"projectcalico.org/IPv4Address": "10.7.0.1/24"}),
		node("lin01", "10.0.0.2", map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan"}),
		node("lin02", "10.1.0.2", nil),
	}, "win07", links)
	if kind != "flannel vxlan" || !slices.Equal(remote, []string{"lin02 (10.1.0.2)"}) {
		t.Errorf("network %q, remote %v", kind, remote)
	}

	ours := node("lin01", "10.0.0.2", map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan"})
	ours.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeNetworkUnavailable, Reason: "RoutesReady"}}
	if kind, _ = NetworkOf([]v1.Node{ours}, "win07", links); kind != "" {
		t.Errorf("of a node that porthole-routes keeps: network %q", kind)
	}
}

// TestEachCheckCanFail: a check that is added here has a case in TestChecks.
// Row 1.120.
func TestEachCheckCanFail(t *testing.T) {
	source, err := os.ReadFile("check_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"windows", "linux"} {
		for _, name := range Names(system) {
			if strings.HasPrefix(name, "Port-") { // one function for all
				name = "Port-10250"
			}
			if spoils := regexp.MustCompile(`", "` + name + `",\s+func\(f \*Facts\)`); !spoils.Match(source) {
				t.Errorf("no case of TestChecks spoils what %s looks at", name)
			}
		}
	}
}

func TestUnitProgram(t *testing.T) {
	unit := "[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n"
	for want, texts := range map[string][]string{
		"":                 {"[Unit]\n"},
		"/usr/bin/kubelet": {unit, "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS\n"},
		"/opt/k":           {unit, "[Service]\nExecStart=\nExecStart=-/opt/k --x\n"},
	} {
		if got := UnitProgram(texts...); got != want {
			t.Errorf("%q: %q, want %q", texts, got, want)
		}
	}
	if got := CloudOf("Microsoft Corporation", "Virtual Machine", "1234"); got != "" { // any Hyper-V
		t.Errorf("a Hyper-V is a machine of %s", got)
	}
}
