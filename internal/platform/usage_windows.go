package platform

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)

var (
	kernel32       = windows.NewLazySystemDLL("kernel32.dll")
	getSystemTimes = kernel32.NewProc("GetSystemTimes")
	getTickCount64 = kernel32.NewProc("GetTickCount64")
	groupCount     = kernel32.NewProc("GetActiveProcessorGroupCount")
	querySystemEx  = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtQuerySystemInformationEx")
	// The K32 names are those of psapi in kernel32, since Windows 7.
	getPerformanceInfo   = kernel32.NewProc("K32GetPerformanceInfo")
	getProcessMemoryInfo = kernel32.NewProc("K32GetProcessMemoryInfo")
)

// readers are the parts of a Usage. The working set is the physical memory in use. No performance counters are read,
// because hosts may lack them.
var readers = []reader{
	func(u *Usage, _ string) error {
		busy, err := readProcessors()
		u.CPUNanoseconds = busy * 100
		return err
	},
	func(u *Usage, _ string) error { return readMemory(u) },
	func(u *Usage, root string) (err error) { u.Disk, err = ReadDisk(root); return err },
	func(u *Usage, _ string) error {
		up, _, _ := getTickCount64.Call()
		u.Boot = time.Now().Add(-time.Duration(up) * time.Millisecond)
		readCommit(u)
		readOwn(u)
		u.Interfaces = readInterfaces()
		return nil
	},
}

// readMemory reads how much physical memory there is, and is in use.
func readMemory(u *Usage) error {
	memory := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&memory))); ok == 0 {
		return fmt.Errorf("reading memory usage: %w", err)
	}
	u.MemoryTotal = memory.totalPhys
	u.MemoryUsed = memory.totalPhys - min(memory.totalPhys, memory.availPhys)
	u.MemoryWorkingSet = u.MemoryUsed
	return nil
}

// processorsPerGroup is the most that a processor group of Windows holds (learn.microsoft.com, "Processor Groups").
const processorsPerGroup = 64

// readProcessors returns how long all processors together have been busy since the machine started, in units of 100
// ns. With more than 64 processors GetSystemTimes covers only the processor group of the calling thread
// (learn.microsoft.com, GetSystemTimes, Remarks), so each group is read by itself. If that fails on a machine with one
// group, as on Wine 8.0, GetSystemTimes is called.
func readProcessors() (uint64, error) {
	groups, _, _ := groupCount.Call()
	groups = max(groups, 1)
	busy, err := busyTime(int(groups), func(group uint16) ([]byte, error) {
		data := make([]byte, processorsPerGroup*processorTimesSize)
		size := uint32(0)
		status, _, _ := querySystemEx.Call(uintptr(windows.SystemProcessorPerformanceInformation),
			uintptr(unsafe.Pointer(&group)), unsafe.Sizeof(group),
			uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&size)))
		if status != 0 {
			return nil, windows.NTStatus(status)
		}
		return data[:min(int(size), len(data))], nil
	})
	if err == nil || groups > 1 {
		return busy, err
	}

	var idle, kernel, user windows.Filetime
	ok, _, err := getSystemTimes.Call(uintptr(unsafe.Pointer(&idle)), uintptr(unsafe.Pointer(&kernel)),
		uintptr(unsafe.Pointer(&user)))
	if ok == 0 {
		return 0, fmt.Errorf("reading processor usage: %w", err)
	}
	ticks := func(f windows.Filetime) uint64 { return uint64(f.HighDateTime)<<32 | uint64(f.LowDateTime) }
	if all := ticks(kernel) + ticks(user); all > ticks(idle) { // kernel time includes idle time
		return all - ticks(idle), nil
	}
	return 0, nil
}

// ReadDisk reads the usage of the volume that holds root, or of C: if root is empty.
func ReadDisk(root string) (d Disk, err error) {
	if root == "" {
		root = `C:\`
	}
	path, err := windows.UTF16PtrFromString(root)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(path, &d.DiskAvailable, &d.DiskTotal, &d.DiskFree)
	}
	if err != nil {
		return Disk{}, fmt.Errorf("reading disk usage of %s: %w", root, err)
	}
	return d, nil
}

// performance is PERFORMANCE_INFORMATION of psapi.h. All but the last three are in pages.
type performance struct {
	size                                                   uint32
	commitTotal, commitLimit, commitPeak                   uintptr
	physicalTotal, physicalAvailable, systemCache          uintptr
	kernelTotal, kernelPaged, kernelNonpaged, bytesPerPage uintptr
	handles, processes, threads                            uint32
}

// readCommit reads the committed memory and the number of processes. What cannot be read stays 0.
func readCommit(u *Usage) {
	p := performance{size: uint32(unsafe.Sizeof(performance{}))}
	if ok, _, _ := getPerformanceInfo.Call(uintptr(unsafe.Pointer(&p)), unsafe.Sizeof(p)); ok == 0 {
		return
	}
	page := uint64(p.bytesPerPage)
	u.CommitTotal = uint64(p.commitTotal) * page
	u.CommitLimit = uint64(p.commitLimit) * page
	u.Tasks = uint64(p.processes)
}

// memoryCounters is PROCESS_MEMORY_COUNTERS of psapi.h.
type memoryCounters struct {
	size, faults                                                                                      uint32
	peakWorkingSet, workingSet, peakPaged, paged, peakNonpaged, nonpaged, pagefileUsage, peakPagefile uintptr
}

func readOwn(u *Usage) {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) == nil {
		ticks := func(f windows.Filetime) uint64 { return uint64(f.HighDateTime)<<32 | uint64(f.LowDateTime) }
		u.OwnCPUNanoseconds = (ticks(kernel) + ticks(user)) * 100
	}
	m := memoryCounters{size: uint32(unsafe.Sizeof(memoryCounters{}))}
	if ok, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&m)),
		unsafe.Sizeof(m)); ok != 0 {
		u.OwnMemory = uint64(m.workingSet)
		u.OwnFaults = uint64(m.faults)
	}
}

// readInterfaces reads the counters of the adapters that have addresses, by their friendly names. This leaves out the
// many tunnels and filters that Windows lists.
func readInterfaces() (out []InterfaceUsage) {
	rows, err := winipcfg.GetIfTable2Ex(winipcfg.MibIfEntryNormal)
	if err != nil {
		return nil
	}
	list,
		err := adapters(
		winipcfg.GAAFlagSkipAnycast | winipcfg.GAAFlagSkipMulticast | winipcfg.GAAFlagSkipDNSServer |
			winipcfg.GAAFlagIncludeGateways)
	if err != nil {
		return nil
	}

	seen := false
	for _, a := range list {
		if a.IfType == winipcfg.IfTypeSoftwareLoopback || a.FirstUnicastAddress == nil {
			continue
		}
		for i := range rows {
			r := &rows[i]
			if r.InterfaceLUID != a.LUID {
				continue
			}
			first := !seen && a.FirstGatewayAddress != nil
			seen = seen || first
			out = append(out, InterfaceUsage{Name: a.FriendlyName(), Default: first, RxBytes: r.InOctets,
				RxErrors: r.InErrors, TxBytes: r.OutOctets, TxErrors: r.OutErrors})
		}
	}

	return out
}
