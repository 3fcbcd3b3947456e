package join

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/preflight"
)

// gather notes the facts of this machine. It changes nothing.
func gather(ctx context.Context, s *Setup, f *preflight.Facts) {
	f.System = "linux"
	f.Privileged = os.Geteuid() == 0
	f.NIC = s.NIC
	f.NodeIP = s.NodeIP
	f.InstallDir = s.InstallDir
	f.Linux = &preflight.LinuxFacts{Systemd: install.HasSystemd()}
	if host, err := platform.ReadHost("/"); err == nil {
		f.Hostname = host.Hostname
		f.Memory = host.MemoryBytes
		f.Linux.SwapBytes = host.SwapBytes
	}
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err == nil {
		f.Linux.Forwarding = strings.TrimSpace(string(text))
	}
	// The file is there once the kernel's module of connection tracking is loaded.
	_, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_max")
	f.Linux.Conntrack = err == nil
	f.Linux.CgroupV2, f.Linux.Controllers = controllers()

	f.Adapters = adapters()
	f.Runtime = askRuntime(ctx, runtimeEndpoint(s.CRISocket))
	f.Ports = usedPorts()
	f.Disk = []preflight.Space{{Path: s.InstallDir, Free: free(s.InstallDir), Role: "install"},
		{Path: "/var/lib/containerd", Free: free("/var/lib/containerd"), Role: "containers"}}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		if v := os.Getenv(name); v != "" {
			f.Proxies = append(f.Proxies, v)
		}
	}
	// A journal of ours, which says who this node is, counts before a kubelet.conf.
	if f.Joined == nil {
		f.Joined = strangersConfig(s.Kubeconfig())
	}
	f.Kubelet = existingKubelet(s.InstallDir)
	dmi := func(name string) string {
		text, _ := os.ReadFile("/sys/class/dmi/id/" + name) // of a machine without firmware tables: it is no cloud's
		return strings.TrimSpace(string(text))
	}
	f.Cloud = preflight.CloudOf(dmi("sys_vendor"), dmi("product_name"), dmi("chassis_asset_tag"))
}

// existingKubelet returns the program of the unit kubelet that this machine has, with kubeadm's drop-in. One that a
// link makes a program of ours is ours: the packages have /usr/bin/kubelet.
func existingKubelet(installed string) (k preflight.ExistingKubelet) {
	var texts []string
	for _, dir := range append(slices.Clone(packageUnits), unitFolder) { // the last counts
		drops, _ := filepath.Glob(filepath.Join(dir, "kubelet.service.d", "*.conf")) // none
		for _, path := range append([]string{filepath.Join(dir, "kubelet.service")}, drops...) {
			if text, err := os.ReadFile(path); err == nil {
				texts = append(texts, string(text))
			}
		}
	}
	k.Program = preflight.UnitProgram(texts...)
	target, err := filepath.EvalSymlinks(k.Program)
	if err != nil {
		target = k.Program
	}
	k.Ours = filepath.Base(target) == "porthole" || strings.HasPrefix(target, installed+"/")
	return k
}

// controllers returns whether cgroups are of version 2, and which controllers the kernel has.
func controllers() (v2 bool, list []string) {
	if text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return true, strings.Fields(string(text))
	}
	// With cgroups of version 1 each line has name, hierarchy, number of groups, and 1 for a
	// controller that is on.
	text, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return false, nil
	}
	for _, line := range strings.Split(string(text), "\n") {
		if w := strings.Fields(line); len(w) == 4 && w[3] == "1" {
			list = append(list, w[0])
		}
	}
	return false, list
}

// adapters returns those with a default route of IPv4, and their first address.
func adapters() (list []preflight.Adapter) {
	text, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil
	}
	// Addresses are in hexadecimal; the default route has neither a destination nor a mask.
	for _, line := range strings.Split(string(text), "\n") {
		w := strings.Fields(line) // interface, destination, gateway, …, mask is the eighth
		if len(w) < 8 || w[1] != "00000000" || w[7] != "00000000" {
			continue
		}
		i, err := net.InterfaceByName(w[0])
		if err != nil || slices.ContainsFunc(list, func(a preflight.Adapter) bool { return a.Name == w[0] }) {
			continue
		}

		a := preflight.Adapter{Name: w[0], MAC: i.HardwareAddr.String()}
		addrs, _ := i.Addrs() // none: the adapter is shown without
		for _, addr := range addrs {
			if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr().Is4() {
				a.Address = p.Addr().String()
				break
			}
		}
		list = append(list, a)
	}
	return list
}

// free returns the bytes that are free where a path is, or will be; -1 if that is not known.
// A folder that is not there yet counts as the nearest one above it.
func free(path string) int64 {
	for {
		var fs unix.Statfs_t
		if err := unix.Statfs(path, &fs); err == nil {
			return int64(fs.Bavail) * fs.Bsize
		}
		if path == "/" || path == "." {
			return -1
		}
		path = filepath.Dir(path)
	}
}

// nodePorts are those of the checks.
var nodePorts = []int{10250, 10248, 10256, 10249, 10261}

// usedPorts returns who listens on ports of ours.
// The list is nil if /proc cannot be read; a port whose process is not known has PID 0.
func usedPorts() (list []preflight.Port) {
	inodes := map[string]int{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		readSockets(file, inodes)
	}
	if len(inodes) == 0 {
		return nil
	}
	owners := socketOwners(inodes)
	for inode, number := range inodes {
		p := preflight.Port{Number: number, PID: owners[inode]}
		if p.PID > 0 {
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID)) // of another user: the number alone is shown
			p.Program = exe
			name := filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
			// The service proxy of a Linux node is kubeadm's, in a pod.
			p.Ours = name == "porthole" || name == "porthole-routes" || name == "kubelet" ||
				(number == 10256 || number == 10249) && strings.Contains(name, "kube")
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b preflight.Port) int { return a.Number - b.Number })
	return list
}

// readSockets adds the sockets that listen on ports of ours, by inode.
// The keys of into are inodes as text, the values ports.
func readSockets(file string, into map[string]int) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		w := strings.Fields(scan.Text()) // sl, local address, remote address, state (0A listens), …, inode is the tenth
		if len(w) < 10 || w[3] != "0A" {
			continue
		}
		_, digits, _ := strings.Cut(w[1], ":")
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != 2 {
			continue
		}
		if number := int(b[0])<<8 | int(b[1]); slices.Contains(nodePorts, number) {
			into[w[9]] = number
		}
	}
}

// socketOwners finds the processes that hold sockets.
// The result has no entry for a socket whose process this user may not look at.
func socketOwners(inodes map[string]int) map[string]int {
	out := map[string]int{}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // of processes that end meanwhile: skipped below
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, "socket:[") {
			continue
		}
		inode := strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")
		if _, ok := inodes[inode]; ok {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			out[inode] = pid
		}
	}
	return out
}

// failsOn reads two settings of the kubelet whose defaults are true.
// An absent setting counts as true; a text that cannot be parsed as false.
func failsOn(text string) (swap, v1 bool) {
	doc := struct {
		Swap *bool `json:"failSwapOn"`
		V1   *bool `json:"failCgroupV1"`
	}{}
	if yaml.Unmarshal([]byte(text), &doc) != nil { // the kubelet's own loader says it
		return false, false
	}
	return doc.Swap == nil || *doc.Swap, doc.V1 == nil || *doc.V1
}
