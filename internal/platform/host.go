package platform

// Host is what a node tells about its machine.
type Host struct {
	OS, Arch                                      string
	Hostname                                      string
	CPUs, MemoryBytes                             int64
	SwapBytes                                     int64           // 0 where there is none, and on Windows
	DiskBytes                                     int64           // of the file system that holds the asked folder
	HugePages                                     map[int64]int64 // bytes in pages of each size that the kernel has, by size in bytes
	AppArmor                                      bool            // the kernel enforces profiles of AppArmor
	KernelVersion, OSImage                        string
	MachineID, SystemUUID, BootID, WindowsRelease string // WindowsRelease is major.minor.build; empty elsewhere
}
