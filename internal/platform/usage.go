package platform

import "time"

// Usage is what a node uses of its machine. Amounts are bytes unless the name says otherwise.
type Usage struct {
	Boot             time.Time
	CPUNanoseconds   uint64 // of all processors together since boot, idle time left out
	MemoryTotal      uint64
	MemoryAvailable  uint64
	MemoryWorkingSet uint64
	Disk
	// MemoryFaults and MemoryMajorFaults are page faults since boot, the latter those that read from a disk; 0 where
	// nobody counts them.
	MemoryFaults, MemoryMajorFaults uint64
	// Tasks is how many there are, threads on Linux and processes on Windows, MaxTasks how many there can be; 0: not known.
	Tasks, MaxTasks uint64
	// CommitTotal and CommitLimit are the memory that Windows has promised, and can promise; 0 elsewhere.
	CommitTotal, CommitLimit uint64
	// SwapTotal and SwapFree are of Linux; 0 where there is no swap.
	SwapTotal, SwapFree uint64
	// Own is what this process uses itself.
	OwnCPUNanoseconds, OwnMemory uint64
	Interfaces                   []InterfaceUsage
}

// Disk is what is used of a file system.
type Disk struct {
	DiskTotal     uint64
	DiskFree      uint64
	DiskAvailable uint64 // to programs that are not privileged
	Inodes        uint64 // 0 where there are none
	InodesFree    uint64
}

// InterfaceUsage is what went through a network interface since it is there.
type InterfaceUsage struct {
	Name                                 string
	Default                              bool // the default route leads through it
	RxBytes, RxErrors, TxBytes, TxErrors uint64
}
