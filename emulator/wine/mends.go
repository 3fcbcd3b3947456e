package wine

import (
	"fmt"
	"slices"
	"strings"
)

// MendOutcome says what this Wine needs of a mend.
type MendOutcome string

// Outcomes.
const (
	MendNeeded    MendOutcome = "needed"       // without it, the probe does not find what Windows does
	MendNotNeeded MendOutcome = "not needed"   // the probe finds it without the mend too
	MendUnfit     MendOutcome = "does not fit" // it does not know this Wine's code
	MendRequired  MendOutcome = "required"     // no probe leaves it out: Why says for what reason
	MendFails     MendOutcome = "fails"        // the probe does not find it with the mend either
)

// Mend is a mend of Wine, and what this Wine needs of it.
type Mend struct {
	Name    string      `json:"mend"`
	What    string      `json:"what"` // it is for
	Outcome MendOutcome `json:"outcome"`
	// Why is what the probe said without the mend, or what does not fit, or why there is no probe.
	Why string `json:"why,omitempty"`
}

// mendProbe says how to find out whether a mend is needed: by which checks of the program mends.exe.
type mendProbe struct {
	name, what string
	checks     []string
	library    bool   // it is a library that takes the place of Wine's, and is left out by an override
	env        string // of the program
	without    string // a reason why it is not left out; then there are no checks
}

// mendProbes are all mends. Names are those of the switches of emulator/dll/mend.h, and of libraries.
var mendProbes = []mendProbe{
	{name: "bcryptprimitives", what: "our library, which does all below up to `stack`", library: true,
		checks: []string{"pipe", "registry"}},
	{name: "pipe", what: "named pipes of Go (NtCreateNamedPipeFile)", checks: []string{"pipe"}},
	{name: "standard-pipe", what: "standard handles that are pipes of Linux", checks: []string{"standard-pipe"}},
	{name: "remove", what: "os.RemoveAll, os.Root.Rename (NtSetInformationFile)", checks: []string{"remove", "rename"}},
	{name: "attributes", what: "attributes of read-only files", checks: []string{"attributes"}},
	{name: "layer", what: "folders of imported layers", without: "only the Host Compute Service makes such folders"},
	{name: "volume-path", what: "paths that name a volume by its GUID", checks: []string{"volume"}},
	{name: "volume", what: "mount points of volumes", checks: []string{"mount-point"}},
	{name: "link", what: "symbolic links", checks: []string{"links", "link-names", "link-roots"}},
	{name: "path", what: "paths with a slash and no drive (RtlGetFullPathName_U)", checks: []string{"slashes"}},
	{name: "console", what: "consoles without a terminal", checks: []string{"console"}},
	{name: "job", what: "jobs, silos", checks: []string{"job"}},
	{name: "backup", what: "BackupRead, BackupWrite", checks: []string{"backup"}},
	{name: "registry", what: "CurrentVersion is 6.3", checks: []string{"registry"}},
	{name: "text", what: "texts of errors", checks: []string{"texts"}},
	{name: "service", what: "services, their parent", checks: []string{"service"}, env: "PORTHOLE_SERVICE=1"},
	{name: "memory", what: "a host's own memory", checks: []string{"memory"}},
	{name: "working-set", what: "the private working set (VM_COUNTERS_EX2)", checks: []string{"working-set"}},
	{name: "process", what: "programs that are made for users and silos (NtCreateUserProcess)",
		checks: []string{"users"}},
	{name: "user", what: "users and groups", checks: []string{"users", "user-programs"}},
	{name: "owner", what: "owners of files", checks: []string{"owners"}},
	{name: "sleep", what: "short sleeps of Go go past wineserver",
		without: "it changes no answer: it saves wineserver two requests for each sleep"},
	{name: "environment", what: "Wine's own variables are hidden", checks: []string{"environment"}},
	{name: "exit", what: "a program whose end hangs is ended",
		without: "the probe would take 20 s: a wineserver that answers nothing (TestPrefix)"},
	{name: "admin", what: "an elevated token", checks: []string{"elevated"}},
	{name: "stack", what: "stacks are given back", checks: []string{"stacks"}},
	{name: "ws2_32", what: "AF_UNIX, UDP's bind, WSAIoctl, the host's name", library: true,
		checks: []string{"unix-sockets", "host-name"}},
	{name: "netapi32", what: "accounts in the registry", checks: []string{"users"}, library: true},
	{name: "pdh", what: "performance counters", checks: []string{"counters"}, library: true},
	{name: "iphlpapi", what: "functions that change routes and addresses", checks: []string{"routes"}, library: true},
	{name: "nsi", what: "interfaces without a helper process", without: behind},
	{name: "sechost", what: "services", without: behind},
	{name: "hnetcfg", what: "rules of the firewall by COM", without: behind},
	{name: "virtdisk", what: "disks of layers", without: behind},
	{name: "combase", what: "COM's memory without the rest of COM",
		without: "it saves processes and changes no answer"},
}

const behind = "its answers come from a service of the host, which the probe does not have"

// ofFile are the mends that the functions of emulator/dll/mend_file.c do, and ofProcesses those of mend_service.c.
var (
	ofFile      = []string{"remove", "attributes", "layer", "volume-path", "link"}
	ofProcesses = []string{"service", "memory", "working-set"}
)

// unfitFor returns the functions by which a mend does not fit.
func unfitFor(name string, list []Unfit) string {
	var functions []string
	for _, u := range list {
		if u.Mend == name || u.Mend == "file" && slices.Contains(ofFile, name) ||
			u.Mend == "service" && slices.Contains(ofProcesses, name) {
			functions = append(functions, u.Function)
		}
	}
	return strings.Join(functions, ", ")
}

// parseChecks reads what the program mends printed: for each check "" or what is wrong. A text may have several lines.
func parseChecks(out string) map[string]string {
	said := map[string]string{}
	last := ""
	for line := range strings.Lines(strings.ReplaceAll(out, "\r", "")) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "ok "); ok {
			said[name], last = "", ""
			continue
		}
		name, text, ok := strings.Cut(line, ": ")
		if ok && last == "" || ok && isCheck(name) {
			said[name], last = text, name
		} else if last != "" {
			said[last] += " " + strings.TrimSpace(line)
		}
	}
	return said
}

func isCheck(name string) bool {
	return slices.ContainsFunc(mendProbes, func(p mendProbe) bool { return slices.Contains(p.checks, name) })
}

// wrong returns what the first of the checks that failed said; "" if all were well. ended is how the program ended.
func wrong(checks []string, said map[string]string, ended error) string {
	for _, c := range checks {
		if text, ok := said[c]; !ok {
			return fmt.Sprintf("%s: the program ended before it: %v", c, ended)
		} else if text != "" {
			return c + ": " + text
		}
	}
	return ""
}

// judge says what a Wine needs of a mend, by what the checks said with it and without it.
func (p mendProbe) judge(with, without string) Mend {
	m := Mend{Name: p.name, What: p.what, Why: without}
	switch {
	case with != "":
		m.Outcome, m.Why = MendFails, with
	case without != "":
		m.Outcome = MendNeeded
	default:
		m.Outcome = MendNotNeeded
	}
	return m
}

// switchedOff is our DLL with a mend left out: emulator/dll/mend_switch.c has the form of its switches.
func switchedOff(dll []byte, mend string) ([]byte, error) {
	const begin = "porthole-mends:"
	text := string(dll)
	at := strings.Index(text, begin)
	if at < 0 {
		return nil, fmt.Errorf("%s has no switches of mends: it is not ours", mendDLL)
	}
	end := strings.IndexByte(text[at:], 0)
	place := strings.Index(text[at:at+max(end, 0)], " +"+mend+" ")
	if place < 0 {
		return nil, fmt.Errorf("%s has no switch of the mend %s", mendDLL, mend)
	}
	off := slices.Clone(dll)
	off[at+place+1] = '-'
	return off, nil
}
