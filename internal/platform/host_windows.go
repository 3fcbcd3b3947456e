package platform

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// IsWindows reports whether this program runs on Windows.
const IsWindows = true

var (
	globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
	installedMemory      = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetPhysicallyInstalledSystemMemory")
)

type memoryStatus struct {
	length, load                                                     uint32
	totalPhys, availPhys, totalPage, availPage, totalVirtual, availV uint64
	availExtended                                                    uint64
}

// ReadHost reads the facts of this machine. DiskBytes is the size of the volume that holds folder.
func ReadHost(folder string) (Host, error) {
	h := Host{OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPUs: int64(windows.GetActiveProcessorCount(windows.ALL_PROCESSOR_GROUPS))}
	if h.CPUs == 0 {
		h.CPUs = int64(runtime.NumCPU())
	}
	h.Hostname, _ = os.Hostname()
	var err error
	if h.MemoryBytes, err = memorySize(); err != nil {
		return h, err
	}
	if name, err := windows.UTF16PtrFromString(folder); err == nil {
		var free, total, totalFree uint64
		if err := windows.GetDiskFreeSpaceEx(name, &free, &total, &totalFree); err != nil {
			return h, fmt.Errorf("reading the size of the volume of %s: %w", folder, err)
		}
		h.DiskBytes = int64(total)
	}

	readVersion(&h)
	h.MachineID = h.Hostname
	h.SystemUUID = plainUUID(text(`SYSTEM\HardwareConfig`, "LastConfig"))
	h.BootID = BootID()
	return h, nil
}

// memorySize returns how much memory the machine has, in bytes. On a host whose memory counters fail it is what the
// firmware says is installed (learn.microsoft.com, GetPhysicallyInstalledSystemMemory), of which Windows may keep a
// part for itself.
func memorySize() (int64, error) {
	m := memoryStatus{}
	m.length = uint32(unsafe.Sizeof(m))
	ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&m)))
	if ok != 0 {
		return int64(m.totalPhys), nil
	}
	var kib uint64
	if ok, _, _ := installedMemory.Call(uintptr(unsafe.Pointer(&kib))); ok != 0 {
		return int64(kib << 10), nil
	}
	return 0, fmt.Errorf("reading the size of memory: %w", err)
}

// BootID returns the number of this boot, which Windows counts in the registry; "" if it is not there. Upstream's
// kubelet reads the same value.
func BootID() string {
	boot := number(`SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`, "BootId")
	if boot == 0 {
		return ""
	}
	return strconv.FormatUint(boot, 10)
}

func readVersion(h *Host) {
	const key = `SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	major := number(key, "CurrentMajorVersionNumber")
	minor := number(key, "CurrentMinorVersionNumber")
	ubr := number(key, "UBR")
	build := text(key, "CurrentBuildNumber")
	h.WindowsRelease = fmt.Sprintf("%d.%d.%s", major, minor, build)
	h.KernelVersion = fmt.Sprintf("%s.%d", h.WindowsRelease, ubr)
	h.OSImage = text(key, "ProductName")
}

func text(key, name string) string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer k.Close()
	v, _, _ := k.GetStringValue(name)
	return v
}

func number(key, name string) uint64 {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return 0
	}
	defer k.Close()
	v, _, _ := k.GetIntegerValue(name)
	return v
}
