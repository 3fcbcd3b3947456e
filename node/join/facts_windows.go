package join

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/preflight"
)

// gather notes the facts of this machine. It changes nothing.
func gather(ctx context.Context, s *Setup, f *preflight.Facts) {
	f.System = "windows"
	f.Privileged = windows.GetCurrentProcessToken().IsElevated()
	f.NIC = s.NIC
	f.NodeIP = s.NodeIP
	f.InstallDir = s.InstallDir
	w := &preflight.WindowsFacts{NoService: missingLibraries(), Pending: pendingRestarts(),
		TestSigning: strings.Contains(strings.ToUpper(regText(controlKey, "SystemStartOptions")), "TESTSIGNING"),
		LaterRename: hasValue(sessionKey, "PendingFileRenameOperations"), Firewall: firewallPolicy(), Path: s.Bundled,
		NetworkPath: onNetwork(s.Bundled)}
	f.Windows = w
	if host, err := platform.ReadHost(rootFolder(s.Root)); err == nil {
		f.Hostname = host.Hostname
		f.Memory = host.MemoryBytes
		w.Product = host.OSImage
		w.Build = buildOf(host.WindowsRelease)
	}
	for _, name := range []string{"CONTAINER_NETWORK", "KUBE_NETWORK", "INTERFACE_TO_ADD_SERVICE_IP"} {
		if os.Getenv(name) != "" {
			w.Environment = append(w.Environment, name)
		}
	}

	// Without the libraries of HNS a call would only repeat what is missing.
	if len(w.NoService) == 0 {
		w.HNS = askHNS(ctx)
	}
	f.Adapters, _ = defaultAdapters() // none known: the check of adapters fails
	f.Runtime = askRuntime(ctx, runtimeEndpoint(s.CRISocket))
	f.Disk = []preflight.Space{{Path: s.InstallDir, Free: freeBytes(s.InstallDir), Role: "install"},
		{Path: `C:\ProgramData\containerd`, Free: freeBytes(`C:\ProgramData\containerd`), Role: "containers"}}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		if v := os.Getenv(name); v != "" && !slices.Contains(f.Proxies, v) {
			f.Proxies = append(f.Proxies, v)
		}
	}
	if f.Joined == nil {
		f.Joined = strangersConfig(s.Kubeconfig())
	}
	gatherServices(f)
	f.Cloud = preflight.CloudOf(regText(biosKey, "SystemManufacturer"), regText(biosKey, "SystemProductName"),
		regText(biosKey, "ChassisAssetTag"))
}

// controlKey, sessionKey and biosKey are below HKEY_LOCAL_MACHINE.
const (
	controlKey = `SYSTEM\CurrentControlSet\Control`
	sessionKey = controlKey + `\Session Manager`
	biosKey    = `HARDWARE\DESCRIPTION\System\BIOS`
)

// gatherServices notes what the service manager knows.
func gatherServices(f *preflight.Facts) {
	m, err := services.Connect()
	if err != nil {
		return // without the rights, which another check says
	}
	defer m.Close()
	ours := map[int]*services.Status{}
	// The ports of each service, as nodePorts has them on Linux.
	for name, numbers := range map[string][]int{"kubelet": {10250, 10248}, "kube-proxy": {10256, 10249},
		"porthole-routes": {10261}} {
		st, err := m.Get(name)
		if err != nil || st == nil {
			continue
		}
		// A service of the same name that others made is not ours.
		own := services.CheckOwner(st.Spec) == nil
		if name == "kubelet" {
			f.Kubelet = preflight.ExistingKubelet{Program: strings.Join(st.Command, " "), Ours: own}
		}
		for _, n := range numbers {
			if own && st.State == "running" {
				ours[n] = st
			}
		}
	}
	if st, err := m.Get("RemoteAccess"); err == nil && st != nil {
		f.Windows.RemoteAccess = st.State == "running"
	}

	// A service of ours that runs explains a port; any other listener is looked for.
	for _, n := range []int{10250, 10248, 10256, 10249, 10261} {
		if st := ours[n]; st != nil {
			f.Ports = append(f.Ports, preflight.Port{Number: n, PID: int(st.PID), Program: st.Command[0], Ours: true})
		} else if inUse(n) {
			f.Ports = append(f.Ports, listener(n))
		}
	}
}

// inUse reports whether another program listens on a port.
// A port that another program has for itself alone is WSAEACCES.
func inUse(number int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(number))
	if err != nil {
		return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES)
	}
	l.Close()
	return false
}

// listener returns the port with the process that listens on it, if Windows tells.
func listener(number int) preflight.Port {
	p := preflight.Port{Number: number}
	pid, err := platform.ListenerOf(uint16(number))
	if err == nil {
		p.PID = int(pid)
		p.Program = platform.ProgramOf(pid)
	}
	return p
}

// missingLibraries returns what of the feature Containers cannot be loaded. Its libraries come with it.
func missingLibraries() (missing []string) {
	for _, name := range []string{"vmcompute.dll", "computenetwork.dll"} {
		if err := windows.NewLazySystemDLL(name).Load(); err != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// hnsTime is how long HNS may take to answer.
const hnsTime = 10 * time.Second

// askHNS returns why HNS does not answer. A call that hangs is left behind, as it cannot be
// interrupted.
func askHNS(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hnsTime)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		_, err := hcn.New(hcn.Options{}).Version(ctx)
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return errors.New("no answer in 10 s")
	}
}

// pendingRestarts returns what asks Windows for a restart.
func pendingRestarts() (list []string) {
	for key, text := range map[string]string{
		`SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending`:  "servicing of components",
		`SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired`: "Windows Update",
	} {
		if k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE); err == nil {
			k.Close()
			list = append(list, text)
		}
	}
	// Windows keeps a new name of the computer apart until it restarts.
	active := regText(controlKey+`\ComputerName\ActiveComputerName`,
		"ComputerName")
	wanted := regText(controlKey+`\ComputerName\ComputerName`, "ComputerName")
	if active != "" && wanted != "" && !strings.EqualFold(active, wanted) {
		list = append(list, "the computer's new name "+wanted)
	}
	slices.Sort(list)
	return list
}

// firewallPolicy returns why rules of this host have no effect; "" if they have. Group policies can make Windows
// ignore them.
func firewallPolicy() string {
	for _, profile := range []string{"DomainProfile", "StandardProfile", "PublicProfile"} {
		key := `SOFTWARE\Policies\Microsoft\WindowsFirewall\` + profile
		if n, known := regNumber(key, "AllowLocalPolicyMerge"); known && n == 0 {
			return "a group policy ignores the firewall rules of this host (" + profile + ")"
		}
	}
	return ""
}

// onNetwork reports whether a folder is on a network drive.
func onNetwork(dir string) bool {
	// A path \\SERVER\SHARE is on the network without a drive.
	volume := filepath.VolumeName(dir)
	if strings.HasPrefix(volume, `\\`) {
		return true
	}
	name, err := windows.UTF16PtrFromString(volume + `\`)
	return err == nil && windows.GetDriveType(name) == windows.DRIVE_REMOTE
}

// freeBytes returns what is free where a folder is, or will be; -1 if that is not known.
func freeBytes(dir string) int64 {
	for {
		if d, err := platform.ReadDisk(dir); err == nil {
			return int64(d.DiskAvailable)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return -1
		}
		dir = up
	}
}

// buildOf returns the build of 10.0.BUILD.
func buildOf(release string) uint32 {
	n, _ := strconv.ParseUint(release[strings.LastIndexByte(release, '.')+1:], 10, 32) // 0 is no build that is known
	return uint32(n)
}

// regText returns a text of HKEY_LOCAL_MACHINE; "" if key or value is not there.
func regText(key, name string) string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer k.Close()
	v, _, _ := k.GetStringValue(name) // none is ""
	return v
}

// known is false if the value is not there or is no number.
func regNumber(key, name string) (n uint64, known bool) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return 0, false
	}
	defer k.Close()
	n, _, err = k.GetIntegerValue(name)
	return n, err == nil
}

// hasValue reports whether the value is there, of whatever type.
func hasValue(key, name string) bool {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return false
	}
	defer k.Close()
	_, _, err = k.GetValue(name, nil)
	return err == nil
}
