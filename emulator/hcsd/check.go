package hcsd

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// maxMemory is the largest limit that is taken, in MB: what a 64-bit Windows Server can have.
const maxMemory = 48 << 20

// Check returns why a system cannot be made of the document, or nil. What an emulated host cannot do is refused with
// the name of the field; nothing that was asked for is left out in silence but limits of input and output.
func (c *ComputeSystem) Check() error {
	switch {
	case c.SchemaVersion == nil || c.SchemaVersion.Major != 2:
		return ErrInvalidJSON.WithText("SchemaVersion: an emulated host knows documents of schema 2 only")
	case c.HostingSystemId != "" || isSet(c.HostedSystem) || isSet(c.VirtualMachine):
		return ErrNotSupported.WithText("VirtualMachine, HostedSystem: an emulated host has no Hyper-V")
	case c.Container == nil:
		return ErrInvalidJSON.WithText("Container is missing")
	case c.Container.Storage == nil || c.Container.Storage.Path == "":
		return ErrInvalidJSON.WithText("Container.Storage.Path is missing")
	}
	if err := c.Container.unsupported(); err != nil {
		return err
	}
	return c.Container.checkValues()
}

// unsupported refuses what an emulated host does not have.
func (c *Container) unsupported() error {
	for name, set := range map[string]bool{
		"HvSocket":                              isSet(c.HvSocket),
		"AdditionalDeviceNamespace":             isSet(c.AdditionalDeviceNamespace),
		"RegistryChanges.DeleteKeys":            c.RegistryChanges != nil && len(c.RegistryChanges.DeleteKeys) > 0,
		"Networking.NetworkSharedContainerName": c.Networking != nil && c.Networking.NetworkSharedContainerName != "",
		"Networking.NetworkAdapters":            c.Networking != nil && len(c.Networking.NetworkAdapters) > 0,
	} {
		if set {
			return ErrNotSupported.WithText("Container.%s: an emulated host cannot do this", name)
		}
	}
	return nil
}

var guidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// checkValues refuses values out of range.
func (c *Container) checkValues() error {
	if m := c.Memory; m != nil && m.SizeInMB > maxMemory {
		return ErrInvalidArgument.WithText("Container.Memory.SizeInMB is %d", m.SizeInMB)
	}
	if p := c.Processor; p != nil &&
		(p.Count < 0 || p.Maximum < 0 || p.Maximum > 10000 || p.Weight < 0 || p.Weight > 10000) {
		return ErrInvalidArgument.WithText("Container.Processor is out of range: %+v", *p)
	}
	if n := c.Networking; n != nil && n.Namespace != "" && !guidForm.MatchString(n.Namespace) {
		return ErrInvalidArgument.WithText("Container.Networking.Namespace %q is no GUID", n.Namespace)
	}

	for _, d := range c.MappedDirectories {
		if d.HostPath == "" || d.ContainerPath == "" {
			return ErrInvalidArgument.WithText("Container.MappedDirectories: HostPath and ContainerPath are needed")
		}
	}
	if err := checkPipes(c.MappedPipes); err != nil {
		return err
	}
	for _, d := range c.AssignedDevices {
		if !d.IsDisplay() {
			return ErrNotSupported.WithText("Container.AssignedDevices: an emulated host has no devices of %s %q",
				d.Type, d.InterfaceClassGuid+d.LocationPath)
		}
	}
	if c.RegistryChanges == nil {
		return nil
	}
	for _, v := range c.RegistryChanges.AddValues {
		if v.Key == nil || hiveRoots[strings.ToLower(v.Key.Hive)] == "" {
			return ErrInvalidArgument.WithText("Container.RegistryChanges: value %q is in no hive that a container has",
				v.Name)
		}
		if !slices.Contains([]string{"String", "ExpandedString", "DWord"}, v.Type) {
			return ErrNotSupported.WithText("Container.RegistryChanges: value %q has the type %q", v.Name, v.Type)
		}
	}
	return nil
}

// displayAdapters is the class of display adapters (GUID_DEVINTERFACE_DISPLAY_ADAPTER). A container that has it finds
// the host's drivers for them in C:\Windows\System32\HostDriverStore (containerd 2.3.6,
// integration/windows_device_test.go). An emulated host has the folder, and no drivers.
const displayAdapters = "5B45201D-F2F2-4F3B-85BB-30FF1F953599"

// IsDisplay reports whether a device is the class of display adapters, whose type may be missing, as in documents of
// runhcs.
func (d Device) IsDisplay() bool {
	return (d.Type == "" || d.Type == "ClassGuid") &&
		strings.EqualFold(strings.Trim(d.InterfaceClassGuid, "{}"), displayAdapters)
}

// pipePrefix is what paths of a host's named pipes begin with, in any case.
const pipePrefix = `\\.\pipe\`

// Limits of mapped pipes: the length of a name (learn.microsoft.com, CreateNamedPipe), and how many an emulated host
// can serve for a container.
const (
	maxPipeName = 256
	maxPipes    = 64
)

// checkPipes refuses what is no pipe of the host, and names that no pipe can have.
func checkPipes(list []MappedPipe) error {
	if len(list) > maxPipes {
		return ErrNotSupported.WithText("Container.MappedPipes: an emulated host maps %d pipes at most", maxPipes)
	}
	for _, p := range list {
		if len(p.HostPath) <= len(pipePrefix) || !strings.EqualFold(p.HostPath[:len(pipePrefix)], pipePrefix) {
			return ErrInvalidArgument.WithText("Container.MappedPipes: HostPath %q is no pipe of the host", p.HostPath)
		}
		for _, name := range []string{p.HostPath[len(pipePrefix):], p.ContainerPipeName} {
			if name == "" || len(name) > maxPipeName ||
				strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r > '~' }) {
				return ErrInvalidArgument.WithText("Container.MappedPipes: no pipe is called %q", name)
			}
		}
	}
	return nil
}

// Consoles: the size of one for which none is asked, that of conhost.exe (unverified, no. 94), and the largest side of
// one, that of a COORD of Windows.
const (
	defaultHeight, defaultWidth = 25, 80
	maxCells                    = 32767
)

// Console is the size of the console that the process is to have. ok is false if it has none.
func (p *Process) Console() (size ConsoleSize, ok bool) {
	size = ConsoleSize{defaultHeight, defaultWidth}
	if len(p.ConsoleSize) == 2 && p.ConsoleSize[0] > 0 && p.ConsoleSize[1] > 0 {
		size = ConsoleSize{uint16(p.ConsoleSize[0]), uint16(p.ConsoleSize[1])}
	}
	return size, p.EmulateConsole
}

// Check returns why a console cannot have the size, or nil.
func (s ConsoleSize) Check() error {
	if s.Height == 0 || s.Width == 0 || s.Height > maxCells || s.Width > maxCells {
		return ErrInvalidArgument.WithText("ConsoleSize %+v: height and width are from 1 to %d", s, maxCells)
	}
	return nil
}

// isSet reports whether a field that is not decoded is there.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// Check returns why a process cannot be made of the document, or nil.
func (p *Process) Check() error {
	switch {
	case p.CommandLine == "" && p.ApplicationName == "":
		return ErrInvalidArgument.WithText("CommandLine is missing")
	case len(p.CommandArgs) > 0:
		return ErrNotSupported.WithText("CommandArgs are for Linux containers")
	case len(p.ConsoleSize) != 0 &&
		(len(p.ConsoleSize) != 2 || slices.Min(p.ConsoleSize) < 0 || slices.Max(p.ConsoleSize) > maxCells):
		return ErrInvalidArgument.WithText("ConsoleSize %v: height and width are from 0 to %d", p.ConsoleSize, maxCells)
	case p.RestrictedToken:
		return ErrNotSupported.WithText("RestrictedToken: all programs of an emulated container are one user")
	case strings.ContainsRune(p.CommandLine+p.ApplicationName+p.WorkingDirectory, 0):
		return ErrInvalidArgument.WithText("a text contains NUL")
	}
	for name, value := range p.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return ErrInvalidArgument.WithText("environment variable %q", name)
		}
	}
	return nil
}

// events are the console events by the names of signals (hcsshim internal/protocol/guestrequest, SignalValueWCOW),
// with the numbers of HandlerRoutine (learn.microsoft.com/windows/console/handlerroutine).
var events = map[string]int{"CtrlC": 0, "CtrlBreak": 1, "CtrlClose": 2, "CtrlLogOff": 5, "CtrlShutdown": 6}

// Event is the number of the console event that a signal is for a program. No signal is CtrlC, unverified, no. 90.
func (s Signal) Event() (int, error) {
	if s.Signal == "" {
		return events["CtrlC"], nil
	}
	n, ok := events[s.Signal]
	if !ok {
		return 0, ErrInvalidArgument.WithText("no signal %q", s.Signal)
	}
	return n, nil
}
