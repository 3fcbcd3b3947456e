package usage

import (
	"path/filepath"
	"strconv"
	"strings"
)

// readV2 reads a cgroup of version 2.
func (r *Reader) readV2(g *Group) {
	dir := r.dir("", g.Path)
	in := func(name string) string { return filepath.Join(dir, name) }

	cpu := map[string]*uint64{"usage_usec": &g.CPU.Total, "user_usec": &g.CPU.User, "system_usec": &g.CPU.System,
		"throttled_usec": &g.CPU.ThrottledTime, "burst_usec": &g.CPU.BurstTime}
	table(in("cpu.stat"), func(name string, n uint64) {
		switch to := cpu[name]; {
		case to != nil:
			*to = n * 1000
		case name == "nr_periods":
			g.CPU.Periods = n
		case name == "nr_throttled":
			g.CPU.Throttled = n
		case name == "nr_bursts":
			g.CPU.Bursts, g.CPU.HasBursts = n, 1
		}
	})
	g.CPU.Shares = sharesOf(number(in("cpu.weight")))
	if text, err := readFile(in("cpu.max")); err == nil { // quota or max, period
		if f := strings.Fields(string(text)); len(f) == 2 {
			g.CPU.Quota, _ = strconv.ParseUint(f[0], 10, 64)
			g.CPU.Period, _ = strconv.ParseUint(f[1], 10, 64)
		}
	}

	m := &g.Memory
	m.Usage = number(in("memory.current"))
	m.Most, m.HasMost = numberIn(in("memory.peak"))
	m.Swap, m.HasSwap = numberIn(in("memory.swap.current"))
	m.HasLimits = exists(in("memory.max"))
	m.Limit, m.Limited = numberIn(in("memory.max"))
	m.SwapLimit = number(in("memory.swap.max"))
	m.Reserved = number(in("memory.min"))
	table(in("memory.events"), func(name string, n uint64) {
		if name == "oom_kill" {
			m.Kills = n
		}
	})
	fields := map[string]*uint64{"file": &m.Cache, "anon": &m.RSS, "file_mapped": &m.Mapped, "kernel": &m.Kernel,
		"active_file": &m.ActiveFile, "inactive_file": &m.InactiveFile,
		"pgfault": &m.Faults, "pgmajfault": &m.MajorFaults}
	table(in("memory.stat"), func(name string, n uint64) {
		if to := fields[name]; to != nil {
			*to = n
		}
	})
	m.OwnFaults, m.OwnMajorFaults = m.Faults, m.MajorFaults // version 2 does not tell them apart
	if g.Path == "/" && m.Usage == 0 {                      // the root has no memory.current
		m.Usage = m.RSS + m.Cache
	}

	g.Tasks.Threads = number(in("pids.current"))
	g.Tasks.ThreadsMax = number(in("pids.max"))
	r.readIO(g, in("io.stat"))
	r.readPressure(g, dir)
}

// sharesOf turns cpu.weight into the shares that version 1 would have: the other way round of what runtimes do.
func sharesOf(weight uint64) uint64 {
	if weight == 0 {
		return 0
	}
	return 2 + (weight-1)*262142/9999
}

// readIO reads what was read from and written to disks: lines of a device and name=number.
func (r *Reader) readIO(g *Group, file string) {
	text, err := readFile(file)
	if err != nil {
		return
	}
	// Pairs of other names, such as those of discards, are left out.
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}

		d := r.disk(g, f[0])
		for _, pair := range f[1:] {
			name, value, _ := strings.Cut(pair, "=")
			n, _ := strconv.ParseUint(value, 10, 64)
			switch name {
			case "rbytes":
				d.ReadBytes = n
			case "wbytes":
				d.WroteBytes = n
			case "rios":
				d.Reads = n
			case "wios":
				d.Writes = n
			}
		}
	}
}

// readPressure reads what was waited for, if the kernel measures it.
func (r *Reader) readPressure(g *Group, dir string) {
	var p Pressure
	any := false
	for _, one := range []struct {
		name string
		to   *Waits
	}{{"cpu", &p.CPU}, {"memory", &p.Memory}, {"io", &p.IO}} {
		text, err := readFile(filepath.Join(dir, one.name+".pressure"))
		if err != nil {
			continue
		}
		any = true
		for line := range strings.Lines(string(text)) { // some avg10=0.00 avg60=0.00 avg300=0.00 total=0
			f := strings.Fields(line)
			if len(f) == 0 {
				continue
			}

			to := &one.to.Some
			if f[0] == "full" {
				to = &one.to.Full
			}
			for _, pair := range f[1:] {
				name, value, _ := strings.Cut(pair, "=")
				switch name {
				case "avg10":
					to.Avg10, _ = strconv.ParseFloat(value, 64)
				case "avg60":
					to.Avg60, _ = strconv.ParseFloat(value, 64)
				case "avg300":
					to.Avg300, _ = strconv.ParseFloat(value, 64)
				case "total":
					to.Total, _ = strconv.ParseUint(value, 10, 64)
				}
			}
		}
	}
	if any {
		g.Pressure = &p
	}
}
