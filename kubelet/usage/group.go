package usage

import "time"

// Group is what one cgroup uses, with those below it. What the kernel does not measure is zero.
type Group struct {
	// Path is the cgroup's, from the root of the tree: /kubepods/burstable/pod…
	Path        string
	At, Created time.Time
	CPU         CPU
	Memory      Memory
	Tasks       Tasks
	Disks       []Disk
	Interfaces  []Interface // of the network namespace of the first process; read for sandboxes and the root only
	// Filesystems are those of the machine's disks; read for the root only.
	Filesystems []Filesystem
	// Pressure is what was waited for; nil where the kernel does not measure it.
	Pressure *Pressure
}

// CPU is time of processors in nanoseconds, and the limits.
type CPU struct {
	Total, User, System          uint64
	Periods, Throttled           uint64 // of the quota
	ThrottledTime                uint64
	Shares, Period, Quota        uint64 // cpu.shares; microseconds; a Quota of 0 is none
	Bursts, BurstTime, HasBursts uint64 // HasBursts is 1 if the kernel counts bursts
}

// Memory is in bytes.
type Memory struct {
	Usage, Most, WorkingSet          uint64
	Cache, RSS, Mapped, Swap, Kernel uint64
	ActiveFile, InactiveFile         uint64
	Faults, MajorFaults              uint64 // of the cgroup and those below it
	OwnFaults, OwnMajorFaults        uint64
	Failures, Kills                  uint64 // how often the limit was reached; processes that were killed for it
	// Limit and SwapLimit are 0 for none; SwapLimit is that of memory and swap together with version 1
	Limit, SwapLimit, Reserved           uint64
	Limited, HasMost, HasSwap, HasLimits bool // there is a limit; the kernel tells these
}

// Tasks are processes and threads of the cgroup itself, and of those below it (Threads).
type Tasks struct {
	Processes, Threads, ThreadsMax uint64 // ThreadsMax is 0 for no limit
	Files, Sockets                 uint64 // that they have open
	// OpenFiles is how many files the first process may open, -1 for no limit; HasOpenFiles says that it was read.
	OpenFiles    int64
	HasOpenFiles bool
	first        string // pid of the first process
}

// Disk is what was read from and written to one device.
type Disk struct {
	Name                  string // /dev/sda; empty if it is not known
	Major, Minor          string
	Reads, Writes         uint64
	ReadBytes, WroteBytes uint64
	// Other are bytes by other operations, as version 1 names them: Sync, Async, Discard, Total.
	Other map[string]uint64
}

// Interface counts what has passed a network interface.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

// Pressure is what was waited for.
type Pressure struct{ CPU, Memory, IO Waits }

// Waits are the times in which some tasks waited, and in which all did.
type Waits struct{ Some, Full Wait }

// Wait is a time in microseconds, and its share of the last 10, 60 and 300 s in percent.
type Wait struct {
	Total                uint64
	Avg10, Avg60, Avg300 float64
}

// Filesystem is a mounted one that is on a disk, and what was done to the disk since the machine started.
type Filesystem struct {
	Device                                  string // /dev/sda1
	Size, Used, Inodes, InodesFree          uint64
	ReadsMerged, SectorsRead, ReadTime      uint64 // times are in milliseconds
	WritesMerged, SectorsWritten, WriteTime uint64
	Current, BusyTime, WeightedTime         uint64 // Current are the operations that are under way
}
