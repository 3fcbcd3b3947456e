package platform

import "strings"

// Host is what a node reports about its machine.
type Host struct {
	OS, Arch          string
	Hostname          string
	CPUs, MemoryBytes int64
	SwapBytes         int64 // 0 without swap space, and on Windows
	// of the file system that holds the folder given to ReadHost
	DiskBytes              int64
	HugePages              map[int64]int64 // bytes in huge pages, by page size in bytes
	AppArmor               bool            // the kernel enforces AppArmor profiles
	KernelVersion, OSImage string
	// WindowsRelease is major.minor.build, and empty on other systems
	MachineID, SystemUUID, BootID, WindowsRelease string
}

// plainUUID converts an identifier of the registry, {xxxxxxxx-…}, to the form that cloud providers and upstream's
// kubelet use: upper case, without braces.
func plainUUID(registry string) string { return strings.ToUpper(strings.Trim(registry, "{}")) }
