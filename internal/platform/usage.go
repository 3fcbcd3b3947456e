package platform

import "time"

// Usage is what a node uses of its machine. Amounts are bytes unless the name says otherwise.
type Usage struct {
	Boot             time.Time
	CPUNanoseconds   uint64 // of all processors together since boot, idle time left out
	MemoryTotal      uint64
	MemoryAvailable  uint64
	MemoryWorkingSet uint64
	DiskTotal        uint64
	DiskFree         uint64
	DiskAvailable    uint64 // to programs that are not privileged
	Inodes           uint64 // 0 where there are none
	InodesFree       uint64
}
