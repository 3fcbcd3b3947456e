package platform

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const ticksPerSecond = 100 // USER_HZ, fixed for /proc on all architectures that Go runs on

// readers are the parts of a Usage.
var readers = []reader{
	func(u *Usage, _ string) error { return readProcessors(u) },
	func(u *Usage, _ string) error { return readMemory(u) },
	func(u *Usage, root string) (err error) { u.Disk, err = ReadDisk(root); return err },
	func(u *Usage, _ string) error { readTasks(u); readOwn(u); u.Interfaces = readInterfaces(); return nil },
}

// readProcessors reads how long processors have worked, and when the machine started.
func readProcessors(u *Usage) error {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return fmt.Errorf("reading processor usage: %w", err)
	}

	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		if len(f) > 8 && f[0] == "cpu" { // user nice system idle iowait irq softirq steal
			for i, text := range f[1:9] {
				if n, err := strconv.ParseUint(text, 10, 64); err == nil && i != 3 && i != 4 {
					u.CPUNanoseconds += n * (1e9 / ticksPerSecond)
				}
			}
		}
		if len(f) == 2 && f[0] == "btime" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				u.Boot = time.Unix(n, 0)
			}
		}
	}
	return nil
}

// ReadDisk reads the usage of the file system that holds root, or of / if root is empty.
func ReadDisk(root string) (Disk, error) {
	if root == "" {
		root = "/"
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return Disk{}, fmt.Errorf("reading disk usage of %s: %w", root, err)
	}
	size := uint64(fs.Bsize)
	return Disk{DiskTotal: fs.Blocks * size, DiskFree: fs.Bfree * size, DiskAvailable: fs.Bavail * size,
		Inodes: fs.Files, InodesFree: fs.Ffree}, nil
}

// readTasks reads the kernel's counts of tasks and page faults. What cannot be read stays 0.
func readTasks(u *Usage) {
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil &&
			(u.MaxTasks == 0 || n < u.MaxTasks) {
			u.MaxTasks = n
		}
	}

	if data, err := os.ReadFile("/proc/loadavg"); err == nil { // 0.1 0.2 0.3 running/all last
		if f := strings.Fields(string(data)); len(f) > 3 {
			_, all, _ := strings.Cut(f[3], "/")
			u.Tasks, _ = strconv.ParseUint(all, 10, 64)
		}
	}
	data, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return
	}

	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "pgfault":
			u.MemoryFaults, _ = strconv.ParseUint(text, 10, 64)
		case "pgmajfault":
			u.MemoryMajorFaults, _ = strconv.ParseUint(text, 10, 64)
		}
	}
}

func readOwn(u *Usage) {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.OwnCPUNanoseconds = uint64(r.Utime.Nano() + r.Stime.Nano())
		u.OwnFaults = uint64(r.Minflt + r.Majflt)
		u.OwnMajorFaults = uint64(r.Majflt)
	}
	if data, err := os.ReadFile("/proc/self/statm"); err == nil { // pages: size resident …
		if f := strings.Fields(string(data)); len(f) > 1 {
			pages, _ := strconv.ParseUint(f[1], 10, 64)
			u.OwnMemory = pages * uint64(os.Getpagesize())
		}
	}
}

// readInterfaces reads the counters of the interfaces of this network namespace, without the loopback.
func readInterfaces() []InterfaceUsage {
	table, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return nil
	}
	routes, _ := os.ReadFile("/proc/net/route") // absent without IPv4
	return parseInterfaces(string(table), string(routes))
}

// parseInterfaces parses /proc/net/dev and /proc/net/route. Default is set for the interface of the first default
// route. The loopback interface is left out.
func parseInterfaces(table, routes string) (out []InterfaceUsage) {
	byDefault := ""
	for line := range strings.Lines(routes) { // Iface Destination …
		if f := strings.Fields(line); len(f) > 1 && f[1] == "00000000" && byDefault == "" {
			byDefault = f[0]
		}
	}
	for line := range strings.Lines(table) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		// receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets errs …
		f := strings.Fields(rest)
		if !ok || len(f) < 11 || name == "lo" {
			continue
		}
		number := func(i int) uint64 { n, _ := strconv.ParseUint(f[i], 10, 64); return n }
		out = append(out, InterfaceUsage{Name: name, Default: name == byDefault, RxBytes: number(0),
			RxErrors: number(2), TxBytes: number(8), TxErrors: number(10)})
	}
	return out
}
