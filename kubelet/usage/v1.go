package usage

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tick is the unit of cpuacct.stat in nanoseconds: USER_HZ, 100 on all systems that Go runs on.
const tick = 1e9 / 100

// readV1 reads a cgroup of version 1, which has a folder for each controller.
func (r *Reader) readV1(g *Group) {
	readCPUV1(&g.CPU, r.dir("cpu", g.Path), r.dir("cpuacct", g.Path))
	readMemoryV1(&g.Memory, r.dir("memory", g.Path))
	pids := r.dir("pids", g.Path)
	g.Tasks.Threads = number(filepath.Join(pids, "pids.current"))
	g.Tasks.ThreadsMax = number(filepath.Join(pids, "pids.max"))
	r.readBlkio(g)
}

// readCPUV1 reads the limits and what they held back from the folder of the controller cpu, and times from that of
// cpuacct.
func readCPUV1(c *CPU, cpu, cpuacct string) {
	c.Total = number(filepath.Join(cpuacct, "cpuacct.usage"))
	table(filepath.Join(cpuacct, "cpuacct.stat"), func(name string, n uint64) {
		switch name {
		case "user":
			c.User = n * tick
		case "system":
			c.System = n * tick
		}
	})

	table(filepath.Join(cpu, "cpu.stat"), func(name string, n uint64) {
		switch name {
		case "nr_periods":
			c.Periods = n
		case "nr_throttled":
			c.Throttled = n
		case "throttled_time":
			c.ThrottledTime = n
		case "nr_bursts":
			c.Bursts, c.HasBursts = n, 1
		case "burst_time":
			c.BurstTime = n
		}
	})
	c.Shares = number(filepath.Join(cpu, "cpu.shares"))
	c.Period = number(filepath.Join(cpu, "cpu.cfs_period_us"))
	c.Quota = number(filepath.Join(cpu, "cpu.cfs_quota_us")) // -1, for none, is no number of this kind
}

// readMemoryV1 reads the folder of the controller memory.
func readMemoryV1(m *Memory, dir string) {
	m.Usage = number(filepath.Join(dir, "memory.usage_in_bytes"))
	m.Most, m.HasMost = numberIn(filepath.Join(dir, "memory.max_usage_in_bytes"))
	m.Failures = number(filepath.Join(dir, "memory.failcnt"))
	m.Kernel = number(filepath.Join(dir, "memory.kmem.usage_in_bytes"))
	m.Limit = limit(filepath.Join(dir, "memory.limit_in_bytes"))
	m.HasLimits = true
	m.SwapLimit = limit(filepath.Join(dir, "memory.memsw.limit_in_bytes"))
	m.Reserved = limit(filepath.Join(dir, "memory.soft_limit_in_bytes"))
	m.Limited = m.Limit > 0

	fields := map[string]*uint64{"total_cache": &m.Cache, "total_rss": &m.RSS, "total_mapped_file": &m.Mapped,
		"total_swap": &m.Swap, "total_active_file": &m.ActiveFile,
		"total_inactive_file": &m.InactiveFile, "total_pgfault": &m.Faults, "total_pgmajfault": &m.MajorFaults,
		"pgfault": &m.OwnFaults, "pgmajfault": &m.OwnMajorFaults}
	table(filepath.Join(dir, "memory.stat"), func(name string, n uint64) {
		if to := fields[name]; to != nil {
			*to = n
		}
	})
	table(filepath.Join(dir, "memory.oom_control"), func(name string, n uint64) {
		if name == "oom_kill" {
			m.Kills = n
		}
	})
}

// readBlkio reads what was read from and written to disks. Each line is a device, an operation and a number.
func (r *Reader) readBlkio(g *Group) {
	dir := r.dir("blkio", g.Path)
	for _, file := range []struct {
		name  string
		bytes bool
	}{{"blkio.throttle.io_service_bytes_recursive", true}, {"blkio.throttle.io_serviced_recursive", false}} {
		text, err := readFile(filepath.Join(dir, file.name))
		if err != nil { // older kernels count for the cgroup itself only
			text, err = readFile(filepath.Join(dir, strings.TrimSuffix(file.name, "_recursive")))
		}
		if err != nil {
			continue
		}

		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) != 3 {
				continue // the total of all devices
			}
			n, err := strconv.ParseUint(f[2], 10, 64)
			if err != nil {
				continue
			}
			d := r.disk(g, f[0])
			switch {
			case f[1] == "Read" && file.bytes:
				d.ReadBytes = n
			case f[1] == "Write" && file.bytes:
				d.WroteBytes = n
			case f[1] == "Read":
				d.Reads = n
			case f[1] == "Write":
				d.Writes = n
			case file.bytes:
				if d.Other == nil {
					d.Other = map[string]uint64{}
				}
				d.Other[f[1]] = n
			}
		}
	}
}

// disk returns the entry of a device, which it makes. id is major:minor.
func (r *Reader) disk(g *Group, id string) *Disk {
	major, minor, _ := strings.Cut(id, ":")
	for i := range g.Disks {
		if g.Disks[i].Major == major && g.Disks[i].Minor == minor {
			return &g.Disks[i]
		}
	}
	g.Disks = append(g.Disks, Disk{Name: r.deviceName(id), Major: major, Minor: minor})
	return &g.Disks[len(g.Disks)-1]
}

// deviceName returns the path of a device, "" if it is not known.
func (r *Reader) deviceName(id string) string {
	r.mu.Lock()
	name, known := r.names[id]
	r.mu.Unlock()
	if known {
		return name
	}
	if link, err := os.Readlink(filepath.Join(r.devices, id)); err == nil {
		name = "/dev/" + filepath.Base(link)
	}
	r.mu.Lock()
	r.names[id] = name
	r.mu.Unlock()
	return name
}
