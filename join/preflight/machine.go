package preflight

import (
	"fmt"
	"slices"
	"strings"
)

func privileged(f *Facts) finding {
	switch {
	case f.Privileged:
		return finding{}
	case f.System == "windows":
		return fail("joining needs an elevated prompt", `start it with "Run as administrator"`)
	}
	return fail("joining needs root", "sudo porthole join …")
}

// builds of Windows Server on which a node was tried.
var builds = map[uint32]string{17763: "Windows Server 2019", 20348: "Windows Server 2022", 26100: "Windows Server 2025"}

// windowsBuild warns about builds that are newer than all known ones, and refuses others that are
// not known.
func windowsBuild(f *Facts) finding {
	build := f.Windows.Build
	switch {
	case builds[build] != "":
		return finding{text: fmt.Sprintf("10.0.%d", build)}
	case build > 26100:
		return warn(fmt.Sprintf("Windows build %d is newer than those on which Porthole was tried", build), "")
	}
	product := f.Windows.Product
	if product != "" {
		product = " (" + product + ")"
	}
	return fail(fmt.Sprintf("Windows build %d%s cannot be a node: no HNS v2", build, product),
		"Server 2019 (17763), 2022 (20348) or 2025 (26100)")
}

// containersFeature tells by its services whether the feature is there; a pending installation
// needs a restart.
func containersFeature(f *Facts) finding {
	if len(f.Windows.NoService) == 0 {
		return finding{}
	}
	cure := "Install-WindowsFeature Containers, then restart"
	if slices.Contains(f.Windows.Pending, "Containers") {
		return finding{Reboot, "the Windows feature Containers is installed, and takes effect after a restart",
			"Restart-Computer"}
	}
	return fail(fmt.Sprintf("the Windows feature Containers is not installed (there is no %s)",
		strings.Join(f.Windows.NoService, ", ")), cure)
}

func rebootPending(f *Facts) finding {
	switch {
	case len(f.Windows.Pending) > 0:
		return finding{Reboot, "Windows waits for a restart: " + strings.Join(f.Windows.Pending, ", "),
			"Restart-Computer, then join again"}
	case f.Windows.LaterRename:
		return warn("files will be renamed at the next restart (PendingFileRenameOperations)", "")
	}
	return finding{}
}

func hns(f *Facts) finding {
	if f.Windows.HNS == nil || len(f.Windows.NoService) > 0 { // ContainersFeature says so
		return finding{}
	}
	return fail(fmt.Sprintf("HNS does not answer: %v", f.Windows.HNS), "Restart-Service hns")
}

// nic finds the adapter by name, MAC address or node IP; with a single one none needs to be named.
func nic(f *Facts) finding {
	var list []string
	for _, a := range f.Adapters {
		list = append(list, fmt.Sprintf("%s (%s)", a.Name, a.Address))
		if f.NIC != "" && (strings.EqualFold(a.Name, f.NIC) || strings.EqualFold(a.MAC, f.NIC)) ||
			f.NodeIP != "" && a.Address == f.NodeIP {
			return finding{}
		}
	}
	names := strings.Join(list, ", ")
	switch {
	case f.NIC != "":
		return fail(fmt.Sprintf("there is no adapter %s with a default route", f.NIC), "--nic with one of "+names)
	case f.NodeIP != "" || len(f.Adapters) == 1:
		return finding{}
	case len(f.Adapters) == 0:
		return fail("no adapter has a default route", "--nic NAME or --node-ip ADDRESS")
	}
	return fail(fmt.Sprintf("%d adapters have a default route: %s", len(f.Adapters), names), "--nic NAME")
}

// cri-dockerd is an implementation of CRI, unlike Docker itself.
func cri(f *Facts) finding {
	ok := "npipe:////./pipe/containerd-containerd"
	if f.System != "windows" {
		ok = "unix:///run/containerd/containerd.sock"
	}
	if strings.Contains(strings.ToLower(f.Runtime.Endpoint), "docker") &&
		!strings.Contains(strings.ToLower(f.Runtime.Endpoint), "cri-dockerd") {
		return fail("Docker is no container runtime of Kubernetes since 1.24", "--cri-socket "+ok)
	}
	if f.Runtime.Err != nil {
		return fail(fmt.Sprintf("the container runtime at %s does not answer: %v", f.Runtime.Endpoint, f.Runtime.Err),
			"start containerd, or give its socket with --cri-socket")
	}
	return finding{text: f.Runtime.Version}
}

func existingKubelet(f *Facts) finding {
	if f.Kubelet.Program == "" || f.Kubelet.Ours {
		return finding{}
	}
	cure := "sc.exe delete kubelet"
	if f.System != "windows" {
		cure = "systemctl disable --now kubelet, and remove its package"
	}
	return fail("service kubelet belongs to "+f.Kubelet.Program, cure)
}

// otherCluster allows a join that repeats an earlier one, also by another address of the same
// cluster.
func otherCluster(f *Facts) finding {
	if f.Joined == nil {
		return finding{}
	}
	if f.Joined.Node == f.Node && (f.Cluster.Server == "" || f.Joined.Server == f.Cluster.Server) {
		return finding{}
	}
	// another address of the same cluster
	if f.Joined.Node == f.Node && f.Joined.CAHash != "" && f.Joined.CAHash == f.Cluster.CAHash {
		return finding{}
	}
	return fail(fmt.Sprintf("this machine is already node %s of %s", f.Joined.Node, f.Joined.Server), "porthole leave")
}

// port refuses a port that a program of others listens on.
func port(f *Facts, number int) finding {
	for _, p := range f.Ports {
		if p.Number != number || p.Ours {
			continue
		}
		who := "another program"
		if p.PID > 0 {
			who = fmt.Sprintf("%s (pid %d)", p.Program, p.PID)
		}
		return fail(fmt.Sprintf("port %d is in use by %s", number, who), "stop that program")
	}
	return finding{}
}

// hostname proposes a valid name beside the error.
func hostname(f *Facts) finding {
	if nodeNameForm.MatchString(f.Node) && len(f.Node) <= maxName {
		return finding{text: f.Node}
	}
	valid := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(f.Node)), "-.")
	if len(valid) > maxName {
		valid = strings.Trim(valid[:maxName], "-.")
	}
	shown := f.Node
	if strings.EqualFold(f.Node, f.Hostname) {
		shown = f.Hostname
	}
	return fail(fmt.Sprintf("%s cannot be the name of a node (RFC 1123: letters, digits, -, at most 63)", shown),
		"--node-name "+valid)
}

const gib = 1 << 30

// disk refuses too little space for the installation, and only warns about images.
func disk(f *Facts) finding {
	worst := finding{}
	for _, d := range f.Disk {
		free := fmt.Sprintf("%.1f GiB are free at %s", float64(d.Free)/gib, d.Path)
		switch {
		case d.Role == "install" && d.Free < 2*gib:
			return fail(free+", and 2 GiB are needed", "free some space, or --install-dir on another disk")
		case d.Role == "containers" && d.Free < 20*gib:
			worst = warn(free+": images of containers need 20 GiB or more", "")
		}
	}
	return worst
}

// Memory is 0 if it could not be read.
func memory(f *Facts) finding {
	if f.Memory > 0 && f.Memory < 2*gib {
		return warn(fmt.Sprintf("this machine has %.1f GiB of memory; 2 GiB or more are usual", float64(f.Memory)/gib),
			"")
	}
	return finding{}
}

func firewall(f *Facts) finding {
	if f.Windows.Firewall == "" {
		return finding{}
	}
	return warn(f.Windows.Firewall, "allow TCP 10250 and 10256 by the policy that forbids local rules")
}

func testSigning(f *Facts) finding {
	if !f.Windows.TestSigning {
		return finding{}
	}
	return warn(
		"this machine loads drivers that nobody signed (test signing is on): a risk for every pod on it; porthole does not change it", "bcdedit /set testsigning off, then restart")
}

func oldEnvironment(f *Facts) finding {
	if len(f.Windows.Environment) == 0 {
		return finding{}
	}
	return warn(strings.Join(f.Windows.Environment, ", ")+" have no effect: they are of older scripts", "remove them")
}

func rras(f *Facts) finding {
	if !f.Windows.RemoteAccess {
		return finding{}
	}
	return warn(
		"the service RemoteAccess is installed: the pod network does not need it, since HNS forwards packets itself",
		"")
}

const maxPath = 200

func path(f *Facts) finding {
	switch {
	case f.Windows.NetworkPath:
		return fail(f.Windows.Path+" is on a network drive, which services cannot reach",
			"copy the folder to this machine")
	case len(f.Windows.Path) > maxPath:
		return fail(fmt.Sprintf("the path of this program has %d characters; 200 fit", len(f.Windows.Path)),
			"move the folder up")
	}
	return finding{}
}

func swap(f *Facts) finding {
	switch {
	case f.Linux.SwapBytes == 0:
		return finding{}
	case f.Linux.FailSwapOn:
		return fail("swap is on, and kubelet-config has failSwapOn: true", "swapoff -a")
	}
	return warn("swap is supported for cgroup v2 only. The kubelet must be properly configured to use swap",
		"https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management")
}

func cgroups(f *Facts) finding {
	var missing []string
	for _, want := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(f.Linux.Controllers, want) {
			missing = append(missing, want)
		}
	}
	switch {
	case len(missing) > 0:
		return fail("the kernel lacks the cgroup controllers "+strings.Join(missing, ", "), "boot with them")
	case !f.Linux.CgroupV2 && f.Linux.FailV1:
		return fail("this machine has cgroup v1, and kubelet-config has failCgroupV1: true",
			"boot with cgroup v2, or set failCgroupV1: false")
	case !f.Linux.CgroupV2:
		return warn("this machine has cgroup v1, which Kubernetes is about to drop",
			"boot with systemd.unified_cgroup_hierarchy=1")
	}
	return finding{}
}

func forwarding(f *Facts) finding {
	if f.Linux.Forwarding == "1" {
		return finding{}
	}
	return fail("/proc/sys/net/ipv4/ip_forward contents are not set to 1", "sysctl -w net.ipv4.ip_forward=1")
}

func conntrack(f *Facts) finding {
	if f.Linux.Conntrack {
		return finding{}
	}
	return warn("the kernel does not track connections yet: services need it", "modprobe nf_conntrack")
}

func systemd(f *Facts) finding {
	if f.Linux.Systemd {
		return finding{}
	}
	return warn(
		"no supported init system detected, skipping checking for services: whoever supervises this machine has to run kubelet and porthole-routes by their files", "")
}

func proxies(f *Facts) finding {
	if len(f.Proxies) == 0 {
		return finding{}
	}
	return warn(
		fmt.Sprintf("Connection to the API server uses proxy %s. If that is not intended, adjust your proxy settings",
			strings.Join(f.Proxies, ", ")), "NO_PROXY with the address of the API server")
}

// clouds are providers by what the firmware of their machines says: vendor and product of the system, and on Azure,
// whose vendor and product are those of every Hyper-V, the chassis' asset tag (as cloud-init's ds-identify tells them
// apart).
var clouds = []struct{ name, vendor, product, tag string }{
	{"aws", "Amazon EC2", "", ""},
	{"azure", "Microsoft Corporation", "Virtual Machine", "7783-7084-3265-9085-8269-3286-77"},
	{"gcp", "Google", "Google Compute Engine", ""},
}

// CloudOf returns the provider of a machine by its firmware; "" if it is none that is known.
func CloudOf(vendor, product, tag string) string {
	for _, c := range clouds {
		if c.vendor == vendor && (c.product == "" || c.product == product) && (c.tag == "" || c.tag == tag) {
			return c.name
		}
	}
	return ""
}

// UnitProgram returns the program that a unit of systemd starts, by the last ExecStart that is not empty in the unit
// and its drop-ins, which come after it. "" if there is none.
func UnitProgram(texts ...string) (program string) {
	for line := range strings.Lines(strings.Join(texts, "\n")) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); is && value != "" {
			program, _, _ = strings.Cut(strings.TrimLeft(value, "-@:+!"), " ")
		}
	}
	return program
}

func cloud(f *Facts) finding {
	switch f.Cloud {
	case "":
		return finding{}
	case "aws":
		return warn("this is an instance of AWS: the source/destination check of this instance must be off",
			"aws ec2 modify-instance-attribute --no-source-dest-check")
	}
	return warn("this is a machine of "+f.Cloud+": its network must carry packets of pods", "")
}
