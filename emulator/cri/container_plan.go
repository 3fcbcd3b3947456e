package cri

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf16"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// commandOf is the Windows command line: the container's, completed from the image as Kubernetes says it.
func commandOf(c *runtimeapi.ContainerConfig, image v1.ImageConfig) ([]string, error) {
	entry, args := image.Entrypoint, image.Cmd
	if len(c.GetCommand()) > 0 {
		entry, args = c.GetCommand(), nil
	}
	if len(c.GetArgs()) > 0 {
		args = c.GetArgs()
	}
	command := append(append([]string{}, entry...), args...)
	if len(command) == 0 {
		return nil, fmt.Errorf("container %s has no command, and its image has none either", c.GetMetadata().GetName())
	}
	return command, nil
}

func workingDir(c *runtimeapi.ContainerConfig, image v1.ImageConfig) string {
	switch {
	case c.GetWorkingDir() != "":
		return c.GetWorkingDir()
	case image.WorkingDir != "":
		return image.WorkingDir
	}
	return `C:\`
}

// takenByWine are variables that Wine keeps from the Linux side unless they are written with WINE in front.
var takenByWine = map[string]bool{"PATH": true, "PWD": true, "HOME": true}

// fromRegistry has the variables that Wine takes from the user's registry and not from the Linux environment, with the key of each.
var fromRegistry = map[string]string{"TEMP": "Environment", "TMP": "Environment", "USERNAME": "Volatile Environment"}

// registryAdditions are appended to a container's hives, in their text form (Wine merges repeated keys): the names that
// a program gets for its computer, which is its pod, what its adapter says of DNS, and variables that only the registry
// can set.
func registryAdditions(hostname string, dns *runtimeapi.DNSConfig, env []*runtimeapi.KeyValue) (system, user string) {
	if hostname != "" {
		short := computerName(hostname)
		system = registryKey(`System\CurrentControlSet\Services\Tcpip\Parameters`, "Hostname", hostname) +
			registryKey(`System\CurrentControlSet\Control\ComputerName\ComputerName`, "ComputerName", short) +
			registryKey(`System\CurrentControlSet\Control\ComputerName\ActiveComputerName`, "ComputerName", short)
	}
	system += registryKey(adapterKey, "SearchList", strings.Join(dns.GetSearches(), ",")) +
		registryKey(adapterKey, "NameServer", strings.Join(dns.GetServers(), ","))
	for _, kv := range env {
		if name := strings.ToUpper(kv.Key); fromRegistry[name] != "" {
			user += registryKey(fromRegistry[name], name, string(kv.Value))
		}
	}
	return system, user
}

// adapterKey is where an adapter's settings are. Programs look through all adapters there; Wine has no GUID of its own for
// the one that a pod has.
const adapterKey = `System\CurrentControlSet\Services\Tcpip\Parameters\Interfaces\{8e1d5c2a-6f5b-4a0e-9a57-706f7274686f}`

// computerName is the NetBIOS name: the first label in capitals, at most 15 characters.
func computerName(hostname string) string {
	short, _, _ := strings.Cut(strings.ToUpper(hostname), ".")
	return short[:min(len(short), 15)]
}

// registryKey is one key with one string value in the text form of a hive, where what is not ASCII is escaped.
func registryKey(key, name, value string) string {
	var escaped strings.Builder
	for _, unit := range utf16.Encode([]rune(value)) {
		switch {
		case unit == '\\' || unit == '"':
			escaped.WriteString(`\` + string(rune(unit)))
		case unit < ' ' || unit > '~':
			fmt.Fprintf(&escaped, `\x%04x`, unit)
		default:
			escaped.WriteRune(rune(unit))
		}
	}
	return fmt.Sprintf("\n[%s]\n\"%s\"=\"%s\"\n", strings.ReplaceAll(key, `\`, `\\`), name, escaped.String())
}

// environment is what the Linux process gets: Wine's own settings, then the image's and the container's variables, of
// which the last one wins; names are compared as on Windows, without case.
func environment(c *runtimeapi.ContainerConfig, image v1.ImageConfig, o Options) []*runtimeapi.KeyValue {
	set := map[string]*runtimeapi.KeyValue{}
	add := func(name, value string) {
		if takenByWine[strings.ToUpper(name)] {
			name = "WINE" + strings.ToUpper(name)
		}
		set[strings.ToUpper(name)] = &runtimeapi.KeyValue{Key: name, Value: []byte(value)}
	}

	for _, kv := range image.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			add(name, value)
		}
	}

	for _, kv := range c.GetEnvs() {
		add(kv.Key, string(kv.Value))
	}
	for _, kv := range wineEnvironment(o) {
		set[kv.Key] = kv
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	out := make([]*runtimeapi.KeyValue, 0, len(names))
	for _, name := range names {
		out = append(out, set[name])
	}
	return out
}

// wineEnvironment starts no helper processes: without wineboot there is no service manager, no device manager and no
// desktop, as in a container that runs one program. Observed with Wine 8.0, 2026-11: 0.07 s instead of 0.43 s to a
// program's first line, and two processes instead of ten.
func wineEnvironment(o Options) []*runtimeapi.KeyValue {
	return []*runtimeapi.KeyValue{
		{Key: "HOME", Value: []byte("/nonexistent")}, // or Wine would link the user's folders into C:
		{Key: "LC_ALL", Value: []byte("C.UTF-8")},
		{Key: "WINEARCH", Value: []byte("win64")},
		{Key: "WINEDEBUG", Value: []byte("-all")},
		{Key: "FONTCONFIG_FILE", Value: []byte("/prefix/fonts.conf")},
		{Key: "WINEDLLOVERRIDES", Value: []byte("mscoree,mshtml,winemenubuilder.exe,wineboot.exe=;ipconfig.exe,nsi,ws2_32=n,b")},
		{Key: "WINELOADER", Value: []byte(o.Wine)},
		{Key: "WINEPREFIX", Value: []byte(prefixInContainer)},
		{Key: "WINESERVER", Value: []byte(o.WineServer)},
	}
}

const (
	cpuPeriod   = 100_000 // microseconds
	cpuMaximum  = 10_000  // of CpuMaximum: all CPUs of the machine
	cpuQuotaMin = 1_000   // microseconds; the kernel takes no less
)

// linuxResources turns a share of all CPUs into time on CPUs.
func linuxResources(w *runtimeapi.WindowsContainerResources, cpus int) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: w.GetMemoryLimitInBytes(), MemorySwapLimitInBytes: w.GetMemoryLimitInBytes()}
	switch {
	case w.GetCpuMaximum() > 0 && w.GetCpuMaximum() < cpuMaximum:
		r.CpuPeriod = cpuPeriod
		r.CpuQuota = max(w.GetCpuMaximum()*int64(cpus)*cpuPeriod/cpuMaximum, cpuQuotaMin)
	case w.GetCpuCount() > 0 && w.GetCpuCount() < int64(cpus):
		r.CpuPeriod = cpuPeriod
		r.CpuQuota = w.GetCpuCount() * cpuPeriod
	}
	if w.GetCpuShares() > 0 {
		r.CpuShares = max(w.GetCpuShares(), 2)
	}
	return r
}

// systemMounts are what Wine itself needs of the machine, and the container's C: and registry.
func systemMounts(f folder) []*runtimeapi.Mount {
	readonly := func(path, source string) *runtimeapi.Mount {
		return &runtimeapi.Mount{ContainerPath: path, HostPath: source, Readonly: true}
	}
	return []*runtimeapi.Mount{
		readonly("/usr", "/usr"), readonly("/lib", "/lib"), readonly("/lib64", "/lib64"),
		readonly("/etc/nsswitch.conf", f.path("nsswitch.conf")),
		{ContainerPath: "/tmp", HostPath: f.path("tmp")}, // the wineserver's socket
		{ContainerPath: prefixInContainer, HostPath: f.path("prefix")},
		{ContainerPath: driveInContainer, HostPath: f.driveC()},
	}
}

// hostsFile is where Windows programs have their hosts file; Wine resolves names with the Linux one.
const hostsFile = "windows/system32/drivers/etc/hosts"

// rooted names the program from the root of C: if it is named from a root: Wine's loader would take /bin/sh for a Linux
// program, on Windows it is C:\bin\sh.exe. The loader does not add .exe either. The arguments stay as they are.
func rooted(command []string) []string {
	if len(command) == 0 || !strings.HasPrefix(command[0], "/") {
		return command
	}
	program := `C:` + strings.ReplaceAll(command[0], "/", `\`)
	if filepath.Ext(command[0]) == "" {
		program += ".exe"
	}
	return append([]string{program}, command[1:]...)
}

// launcher is our program of that name, see emulator/dll/launch.c.
const launcher = `C:\windows\system32\porthole-launch.exe`

// launched is what Wine's loader is to start for a container's command: the launcher, which gives the program its command line as
// it is, and keeps its exit code. program is where the program was found; the launcher looks for one that was not, because it may be
// in a mount. A program that is named from a root without a drive is always named to it, because Wine would look for a Linux path.
// The launcher costs a process and 0.08 s (observed with Wine 8.0, 2026-11), so it starts no exec.
func launched(command []string, program string) []string {
	if len(command) == 0 {
		return command
	}
	if named := rooted(command); named[0] != command[0] {
		program = named[0]
	}
	return append([]string{launcher, program}, command...)
}

// programCandidates are the files, below C:, that a program name may mean: as given and with .exe, in the working
// folder and on the path, as CreateProcess looks for them.
func programCandidates(program, dir, path string) []string {
	names := []string{program}
	if !strings.Contains(filepath.Base(strings.ReplaceAll(program, `\`, "/")), ".") {
		names = []string{program + ".exe", program}
	}
	if strings.ContainsAny(program, `\/:`) {
		if !strings.ContainsAny(program[:1], `\/`) && !strings.Contains(program, ":") {
			for i := range names {
				names[i] = dir + `\` + names[i]
			}
		}
		return names
	}
	var out []string
	for _, d := range append([]string{dir, `C:\windows\system32`, `C:\windows`}, strings.Split(path, ";")...) {
		if strings.TrimSpace(d) == "" {
			continue
		}
		for _, n := range names {
			out = append(out, strings.TrimRight(d, `\/`)+`\`+n)
		}
	}
	return out
}
