package hcsd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// start is any time.
var start = time.Unix(1000, 0)

// smallest is a document that makes a system.
const smallest = `{"Owner":"o","SchemaVersion":{"Major":2,"Minor":1},"Container":{"Storage":{"Path":"\\\\?\\Volume{x}\\"}}}`

// TestDecode: a document has the names of the schema, each once.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"", true}, {"{}", true}, {smallest, true},
		{`{"owner":"o"}`, false}, {`{"Owner":"a","Owner":"b"}`, false}, {`{"Container":{"Memory":{"Size":1}}}`, false},
		{`{} {}`, false}, {`[]`, false}, {`{"Owner":1}`, false},
		{`{"Container":{"MappedDirectories":[{"hostPath":"x"}]}}`, false},
		{`{"Container":{"HvSocket":{"Anything":[{"is":"kept"}]}}}`, true},
	} {
		var doc ComputeSystem
		if err := Decode(c.text, &doc); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalidJSON) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	var p Process
	if err := Decode(`{"Environment":{"a":"1","A":"2"}}`, &p); err != nil || len(p.Environment) != 2 {
		t.Errorf("names of a map are anybody's: %v", err)
	}
}

// TestCheck: what an emulated host cannot do is refused by name.
func TestCheck(t *testing.T) {
	for with, want := range map[string]*Error{
		`"Processor":{"Maximum":10001}`:                                            ErrInvalidArgument,
		`"Memory":{"SizeInMB":99999999}`:                                           ErrInvalidArgument,
		`"Networking":{"Namespace":"x"}`:                                           ErrInvalidArgument,
		`"HvSocket":{}`:                                                            ErrNotSupported,
		`"MappedPipes":[{"HostPath":"C:\\p","ContainerPipeName":"p"}]`:             ErrInvalidArgument,
		`"MappedPipes":[{"HostPath":"\\\\.\\pipe\\","ContainerPipeName":"p"}]`:     ErrInvalidArgument,
		`"MappedPipes":[{"HostPath":"\\\\.\\pipe\\p"}]`:                            ErrInvalidArgument,
		`"MappedPipes":[{"HostPath":"\\\\.\\pipe\\p","ContainerPipeName":"a\"b"}]`: ErrInvalidArgument,
		`"AssignedDevices":[{"Type":"ClassGuid","InterfaceClassGuid":"86E0D1E0-8089-11D0-9CE4-08003E301F73"}]`: ErrNotSupported,
		`"AssignedDevices":[{"Type":"ClassGuid"}]`:                                                             ErrNotSupported,
		`"MappedDirectories":[{"HostPath":"C:\\a"}]`:                                                           ErrInvalidArgument,
		`"RegistryChanges":{"AddValues":[{"Name":"x"}]}`:                                                       ErrInvalidArgument,
		`"RegistryChanges":{"DeleteKeys":[{"Hive":"System"}]}`:                                                 ErrNotSupported,
	} {
		text := strings.Replace(smallest, `"Container":{`, `"Container":{`+with+`,`, 1)
		if _, err := (Systems{}).Create("a", text, time.Time{}); !errors.Is(err, want) {
			t.Errorf("%s: %v", with, err)
		}
	}

	for _, text := range []string{`{}`, `{"SchemaVersion":{"Major":1}}`,
		`{"SchemaVersion":{"Major":2},"VirtualMachine":{}}`, `{"SchemaVersion":{"Major":2},"Container":{}}`} {
		if s, err := (Systems{}).Create("a", text, time.Time{}); err == nil {
			t.Errorf("%s made %+v", text, s)
		}
	}
}

// TestLife follows a system with two processes from its creation to its end.
func TestLife(t *testing.T) {
	now := time.Unix(1000, 0)
	all := Systems{}
	s, err := all.Create("a", smallest, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Create("a", smallest, now); !errors.Is(err, ErrSystemExists) {
		t.Errorf("made twice: %v", err)
	}
	if err := s.Running(); !errors.Is(err, ErrInvalidState) {
		t.Errorf("a program in a system that is not started: %v", err)
	}
	if n := s.Run(now); s.Begin() != ErrInvalidState || n.Type != SystemStartCompleted {
		t.Errorf("start: %+v", n)
	}

	s.AddProcess(7, Process{CommandLine: `"C:\my app\a.exe" -x`}, now)
	s.AddProcess(8, Process{CommandLine: "cmd /c dir"}, now)
	if list := s.EndProcess(8, 300); !slices.Equal(list, []Notification{{System: "a", Pid: 8, Type: ProcessExited}}) ||
		s.EndProcess(8, 1) != nil {
		t.Errorf("the end of a process: %+v", list)
	}
	p, err := s.Process(8)
	if err != nil || p.Status() != `{"ProcessId":8,"Exited":true,"ExitCode":300,"LastWaitResult":0}` ||
		len(s.Past(8)) != 1 || s.Past(7) != nil {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := s.OpenProcess(8); !errors.Is(err, ErrElementNotFound) {
		t.Errorf("opening a process that has ended: %v", err)
	}

	if err := s.Stop(); !errors.Is(err, ErrPending) {
		t.Errorf("stop: %v", err)
	}
	list := s.End(ErrUnexpectedExit.Code, 5)
	if len(list) != 2 || list[0].Pid != 7 || list[1].Type != SystemExited || list[1].Status != ErrUnexpectedExit.Code ||
		s.End(0, 0) != nil {
		t.Errorf("end: %+v", list)
	}
	if _, err := all.Open("a"); !errors.Is(err, ErrSystemNotFound) || s.Stop() != ErrAlreadyStopped ||
		len(s.Past(0)) != 1 {
		t.Errorf("a system that has ended: %v", err)
	}
}

// TestProperties: a process is listed once, with the pid that was answered, however the program was named.
func TestProperties(t *testing.T) {
	s := &System{ID: "a", State: Running, Started: start, Doc: ComputeSystem{Owner: "o"},
		Processes: map[uint32]*Started{}}
	s.AddProcess(7, Process{CommandLine: `"C:\my app\A.exe" -x`}, start)
	m := Measured{ProcessorNanos: 1200, MemoryBytes: 5,
		Programs: []Program{{Pid: 70, Image: "a.exe", MemoryBytes: 3}, {Pid: 71, Image: "b.exe"}}}
	types, measure, err := ParseQuery(`{"PropertyTypes":["Statistics","ProcessList"]}`)
	if err != nil || !measure {
		t.Fatal(err)
	}
	got := s.Properties(types, m, start.Add(time.Second))
	for _, want := range []string{
		`"Id":"a","SystemType":"Container","RuntimeOsType":"Windows","Owner":"o","State":"Running"`,
		`"Uptime100ns":10000000`, `"TotalRuntime100ns":12`,
		`"ProcessList":[{"ProcessId":7,"ImageName":"A.exe","CreateTimestamp":"1970-01-01T00:16:40Z","MemoryCommitBytes":3},{"ProcessId":71,"ImageName":"b.exe"`} {
		if !strings.Contains(got, want) {
			t.Errorf("properties lack %s:\n%s", want, got)
		}
	}
	if _, _, err := ParseQuery(`{"PropertyTypes":["CpuGroup"]}`); !errors.Is(err, ErrNotSupported) {
		t.Errorf("a property that is not known: %v", err)
	}
	if text, err := (Systems{"a": s}).Enumerate(`{"Owners":["O"]}`); err != nil || !strings.Contains(text, `"Id":"a"`) {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := (Systems{"a": s}).Enumerate(`{"Ids":["b"]}`); err != nil || text != "[]" {
		t.Errorf("%s, %v", text, err)
	}
}

// TestModify changes limits and nothing else.
func TestModify(t *testing.T) {
	s := &System{Doc: ComputeSystem{Container: &Container{Storage: &Storage{Path: "p"}}}}
	if c,
		err := s.Modify(
		`{"ResourcePath":"Container/Memory/SizeInMB","RequestType":"Update","Settings":64}`); err != nil ||
		c.Memory.SizeInMB != 64 {
		t.Errorf("%+v, %v", c, err)
	}
	if c,
		err := s.Modify(
		`{"ResourcePath":"Container/Processor","RequestType":"Update","Settings":{"Maximum":5000}}`); err != nil ||
		c.Processor.Maximum != 5000 || c.Memory.SizeInMB != 64 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{`{"ResourcePath":"Container/MappedDirectories","RequestType":"Add"}`,
		`{"ResourcePath":"Container/Processor","Settings":{"Maximum":-1}}`, `{"ResourcePath":"x"}`} {
		if c, err := s.Modify(text); err == nil {
			t.Errorf("%s: %+v", text, c)
		}
	}
}

// TestRegistry writes values as Wine reads them; the offline control set is the one in use.
func TestRegistry(t *testing.T) {
	changes := &RegistryChanges{AddValues: []RegistryValue{
		{Key: &RegistryKey{Hive: "System", Name: `ControlSet001\Control`}, Name: "A", Type: "String", StringValue: "x"},
		{Key: &RegistryKey{Hive: "Software", Name: `Microsoft\X`}, Name: "B", Type: "DWord", DWordValue: 10}}}
	key := func(key, name, value string) string { return "[" + key + "]\n\"" + name + "\"=\"" + value + "\"\n" }
	want := "[System\\CurrentControlSet\\Control]\n\"A\"=\"x\"\n[Software\\Microsoft\\X]\n\"B\"=dword:0000000a\n"
	if got := changes.RegistryText(key); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNames of layers and programs.
func TestNames(t *testing.T) {
	if a := NameToGUID("Layer"); a != NameToGUID("layer") || !guidForm.MatchString(a) || a == NameToGUID("other") {
		t.Errorf("GUID %s", a)
	}
	id := NameToGUID("x")
	for volume, ok := range map[string]bool{Volume(id): true, Volume(id) + `\`: true, `C:\x`: false,
		`\\?\Volume{../..}`: false, `\\?\Volume{}`: false} {
		if got, known := LayerOfVolume(volume); known != ok || ok && got != id {
			t.Errorf("%s: %q, %v", volume, got, known)
		}
	}
	for line, want := range map[string]string{`"C:\my app\a.exe" -x`: "a.exe", "cmd /c dir": "cmd.exe",
		`C:\x\y`: "y.exe", "": ".exe"} {
		if got := ImageName(line, ""); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	if n, err := (Signal{"CtrlShutdown"}).Event(); n != 6 || err != nil {
		t.Errorf("signal: %d, %v", n, err)
	}
	if _, err := (Signal{"KILL"}).Event(); err == nil {
		t.Error("a signal of Linux is known")
	}
}
