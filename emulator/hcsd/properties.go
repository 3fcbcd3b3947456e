package hcsd

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Measured is what was seen of a system's programs.
type Measured struct {
	ProcessorNanos, UserNanos, KernelNanos uint64
	MemoryBytes, PeakBytes, PrivateBytes   uint64 // in use, the most so far, and without what the kernel can drop
	ReadBytes, WriteBytes                  uint64
	ReadCount, WriteCount                  uint64
	Programs                               []Program
}

// ProcessorTime is time on processors, in ns. Total is exact, and need not be the sum of the others.
type ProcessorTime struct{ Total, User, Kernel uint64 }

// LeaveOut subtracts the processor time of a container's wineserver from the time that the container's cgroup has
// counted. A job object of Windows counts the time of its programs, and wineserver is none of them: it does the work of
// Windows' kernel. told holds the figures of the last call. No figure falls below them, although the two times are not
// read at the same moment.
func (m *Measured) LeaveOut(server ProcessorTime, told *ProcessorTime) {
	for _, c := range []struct {
		counted *uint64
		server  uint64
		told    *uint64
	}{{&m.ProcessorNanos, server.Total, &told.Total}, {&m.UserNanos, server.User, &told.User},
		{&m.KernelNanos, server.Kernel, &told.Kernel}} {
		*c.counted = max(*c.counted-min(c.server, *c.counted), *c.told)
		*c.told = *c.counted
	}
}

// Program is one that runs in a system.
type Program struct {
	Pid         uint32
	Image       string // file name
	Begun       time.Time
	MemoryBytes uint64
}

// The parts of a system's properties (schema 2.1).
type (
	systemProperties struct {
		Id            string
		SystemType    string
		RuntimeOsType string
		Owner         string `json:",omitempty"`
		State         string
		Stopped       bool             `json:",omitempty"`
		ExitType      string           `json:",omitempty"`
		Statistics    *statistics      `json:",omitempty"`
		ProcessList   []processDetails `json:",omitempty"`
	}
	statistics struct {
		Timestamp          time.Time
		ContainerStartTime time.Time
		Uptime100ns        uint64
		Processor          processorStatistics
		Memory             memoryStatistics
		Storage            storageStatistics
	}
	processorStatistics struct{ TotalRuntime100ns, RuntimeUser100ns, RuntimeKernel100ns uint64 }
	memoryStatistics    struct {
		MemoryUsageCommitBytes, MemoryUsageCommitPeakBytes, MemoryUsagePrivateWorkingSetBytes uint64
	}
	storageStatistics struct {
		ReadCountNormalized, ReadSizeBytes, WriteCountNormalized, WriteSizeBytes uint64
	}
	processDetails struct {
		ProcessId         uint32
		ImageName         string
		CreateTimestamp   time.Time
		MemoryCommitBytes uint64
	}
)

// Properties of systems that are known. Others are refused, so that none is left out in silence.
const (
	statisticsProperty  = "Statistics"
	processListProperty = "ProcessList"
)

// ParseQuery reads a query for properties of a system. measure reports whether any of them needs a look at its
// programs.
func ParseQuery(query string) (types []string, measure bool, err error) {
	var q PropertyQuery
	if err := Decode(query, &q); err != nil {
		return nil, false, err
	}
	for _, t := range q.PropertyTypes {
		if t != statisticsProperty && t != processListProperty {
			return nil, false, ErrNotSupported.WithText("property %q: an emulated host has %s and %s", t,
				statisticsProperty, processListProperty)
		}
	}
	return q.PropertyTypes, len(q.PropertyTypes) > 0, nil
}

// Properties are a system's, with those that were asked for. m may be empty for a system that does not run.
func (s *System) Properties(types []string, m Measured, now time.Time) string {
	p := systemProperties{Id: s.ID, SystemType: "Container", RuntimeOsType: "Windows", Owner: s.Doc.Owner,
		State: s.State, Stopped: s.State == Stopped}
	if p.Stopped {
		p.ExitType = "GracefulExit"
		if s.ExitCode != 0 {
			p.ExitType = "UnexpectedExit"
		}
	}
	if slices.Contains(types, statisticsProperty) {
		p.Statistics = s.statistics(m, now)
	}
	if slices.Contains(types, processListProperty) {
		p.ProcessList = s.processList(m)
	}
	return text(p)
}

func (s *System) statistics(m Measured, now time.Time) *statistics {
	const unit = 100 // nanoseconds
	return &statistics{
		Timestamp: now.UTC(), ContainerStartTime: s.Started.UTC(),
		Uptime100ns: uint64(max(now.Sub(s.Started), 0)) / unit,
		Processor:   processorStatistics{m.ProcessorNanos / unit, m.UserNanos / unit, m.KernelNanos / unit},
		Memory:      memoryStatistics{m.MemoryBytes, m.PeakBytes, m.PrivateBytes},
		Storage:     storageStatistics{m.ReadCount, m.ReadBytes, m.WriteCount, m.WriteBytes},
	}
}

// processList has the programs that were seen. One that was started by HcsCreateProcess is listed with the pid that
// was answered then, which is that of its launcher: a program of the same name is left out for it.
func (s *System) processList(m Measured) []processDetails {
	others := slices.Clone(m.Programs)
	var list []processDetails
	for _, pid := range slices.Sorted(maps.Keys(s.Processes)) {
		p := s.Processes[pid]
		if p.Exited {
			continue
		}
		d := processDetails{ProcessId: pid, ImageName: ImageName(p.Doc.CommandLine, p.Doc.ApplicationName),
			CreateTimestamp: p.Begun.UTC()}
		i := slices.IndexFunc(others, func(o Program) bool { return strings.EqualFold(o.Image, d.ImageName) })
		if i >= 0 {
			d.MemoryCommitBytes = others[i].MemoryBytes
			others = slices.Delete(others, i, i+1)
		}
		list = append(list, d)
	}
	for _, o := range others {
		list = append(list, processDetails{o.Pid, o.Image, o.Begun.UTC(), o.MemoryBytes})
	}
	return list
}

// ImageName is the file name of the program that a command line starts.
func ImageName(commandLine, application string) string {
	program := application
	if program == "" {
		program = strings.TrimSpace(commandLine)
		if quoted, ok := strings.CutPrefix(program, `"`); ok {
			program, _, _ = strings.Cut(quoted, `"`)
		} else {
			program, _, _ = strings.Cut(program, " ")
		}
	}
	name := program[strings.LastIndexAny(program, `\/:`)+1:]
	if !strings.Contains(name, ".") {
		name += ".exe"
	}
	return name
}

// Status is what HcsGetProcessProperties answers.
func (p *Started) Status() string {
	return text(struct {
		ProcessId      uint32
		Exited         bool
		ExitCode       uint32
		LastWaitResult int32
	}{p.Pid, p.Exited, p.Code, 0})
}

// ServiceProperties are what HcsGetServiceProperties answers: the versions of the schema that are known, or the
// instances of Container Credential Guard.
func ServiceProperties(query string, credentials Credentials) (string, error) {
	var q PropertyQuery
	if err := Decode(query, &q); err != nil {
		return "", err
	}
	if len(q.PropertyTypes) == 0 {
		q.PropertyTypes = []string{"Basic"}
	}
	var list []any
	for _, t := range q.PropertyTypes {
		switch t {
		case "Basic":
			list = append(list, map[string]any{"SupportedSchemaVersions": []Version{{2, 1}}})
		case credentialGuard:
			list = append(list, credentials.instances())
		default:
			return "", ErrNotSupported.WithText("property %q of the service", t)
		}
	}
	return text(map[string]any{"Properties": list}), nil
}

// Enumerate lists the systems that a query matches, by id. A stopped system is not listed.
func (all Systems) Enumerate(query string) (string, error) {
	var q SystemQuery
	if err := Decode(query, &q); err != nil {
		return "", err
	}
	list := []systemProperties{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		s := all[id]
		if s.State == Stopped || !matches(q.IDs, id) || !matches(q.Owners, s.Doc.Owner) ||
			!matches(q.Types, "Container") || !matches(q.Names, "") {
			continue
		}
		list = append(list, systemProperties{Id: id, SystemType: "Container", RuntimeOsType: "Windows",
			Owner: s.Doc.Owner, State: s.State})
	}
	return text(list), nil
}

// matches reports whether a list of a query has the value; an empty list has every one.
func matches(list []string, value string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, value) })
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "null" // the types here can always be written
	}
	return string(data)
}
