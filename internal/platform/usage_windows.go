package platform

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32       = windows.NewLazySystemDLL("kernel32.dll")
	getSystemTimes = kernel32.NewProc("GetSystemTimes")
	getTickCount64 = kernel32.NewProc("GetTickCount64")
)

// ReadUsage reads the usage of the machine, and of the volume that root is on. The working set is the physical memory in
// use; no performance counters are read, because hosts may lack them.
func ReadUsage(root string) (Usage, error) {
	var u Usage
	var idle, kernel, user windows.Filetime
	ok, _, err := getSystemTimes.Call(uintptr(unsafe.Pointer(&idle)), uintptr(unsafe.Pointer(&kernel)), uintptr(unsafe.Pointer(&user)))
	if ok == 0 {
		return u, fmt.Errorf("reading processor usage: %w", err)
	}
	ticks := func(f windows.Filetime) uint64 { return uint64(f.HighDateTime)<<32 | uint64(f.LowDateTime) }
	if busy := ticks(kernel) + ticks(user); busy > ticks(idle) { // kernel time includes idle time
		u.CPUNanoseconds = (busy - ticks(idle)) * 100
	}
	memory := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&memory))); ok == 0 {
		return u, fmt.Errorf("reading memory usage: %w", err)
	}
	u.MemoryTotal, u.MemoryAvailable = memory.totalPhys, memory.availPhys
	u.MemoryWorkingSet = memory.totalPhys - min(memory.totalPhys, memory.availPhys)
	up, _, _ := getTickCount64.Call()
	u.Boot = time.Now().Add(-time.Duration(up) * time.Millisecond)
	if root == "" {
		root = `C:\`
	}
	path, err := windows.UTF16PtrFromString(root)
	if err != nil {
		return u, fmt.Errorf("reading disk usage of %s: %w", root, err)
	}
	if err := windows.GetDiskFreeSpaceEx(path, &u.DiskAvailable, &u.DiskTotal, &u.DiskFree); err != nil {
		return u, fmt.Errorf("reading disk usage of %s: %w", root, err)
	}
	return u, nil
}
