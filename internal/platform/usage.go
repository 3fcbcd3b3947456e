package platform

import (
	"errors"
	"time"
)

// Usage is what a node uses of its machine. Amounts are bytes unless the name says otherwise.
type Usage struct {
	Boot             time.Time
	CPUNanoseconds   uint64 // of all processors together since boot, idle time left out
	MemoryTotal      uint64
	MemoryUsed       uint64
	MemoryWorkingSet uint64 // MemoryUsed without files that were not used for long
	Disk
	// MemoryFaults are page faults since boot, MemoryMajorFaults those of them that read from a disk. Both are 0 on
	// systems that do not count them.
	MemoryFaults, MemoryMajorFaults uint64
	// Tasks is the number of threads on Linux, of processes on Windows. MaxTasks is its limit. 0 means not known.
	Tasks, MaxTasks uint64
	// CommitTotal is the memory that Windows has committed, CommitLimit its limit. Both are 0 on other systems.
	CommitTotal, CommitLimit uint64
	// SwapTotal and SwapFree are for Linux, and 0 without swap space.
	SwapTotal, SwapFree uint64
	// Own is what this process uses itself.
	OwnCPUNanoseconds, OwnMemory uint64
	// page faults, and those of them that read from a disk; Windows does not tell these apart
	OwnFaults, OwnMajorFaults uint64
	Interfaces                []InterfaceUsage
}

// Disk is what is used of a file system.
type Disk struct {
	DiskTotal     uint64
	DiskFree      uint64
	DiskAvailable uint64 // to programs that are not privileged
	Inodes        uint64 // 0 where there are none
	InodesFree    uint64
}

// InterfaceUsage counts what has passed a network interface since it was created.
type InterfaceUsage struct {
	Name                                 string
	Default                              bool // the default route uses it
	RxBytes, RxErrors, TxBytes, TxErrors uint64
}

// reader reads one part of a Usage. The path is a folder on the file system in question.
type reader func(u *Usage, root string) error

// ReadUsage reads what the machine uses, and the file system that holds root. What cannot be read stays zero, and the
// error says so: the rest is right all the same, so that one counter that a host lacks costs no other.
func ReadUsage(root string) (Usage, error) { return readAll(root, readers) }

func readAll(root string, list []reader) (u Usage, err error) {
	for _, read := range list {
		err = errors.Join(err, read(&u, root))
	}
	return u, err
}
