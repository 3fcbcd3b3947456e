package serve

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What testdata/client reads and prints for a container whose programs a test names.
type (
	wantedPrograms struct {
		Mounts   []wantedMount
		Programs []wantedProgram
	}
	wantedMount struct {
		HostPath, ContainerPath string
		ReadOnly                bool
	}
	wantedProgram struct {
		Line, User, Input string
		Environment       map[string]string
	}
	ranProgram struct {
		HResult, Code uint32
		Out, Err      string
	}
)

// ran runs programs in a container, one after the other.
func (h *host) ran(w wantedPrograms) []ranProgram {
	h.t.Helper()
	data, err := json.Marshal(w)
	check(h.t, err)
	h.write("programs.json", string(data))
	h.write("layers/scratch/note", "")
	out, err := h.command(`C:\client.exe`, "programs").Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		h.t.Errorf("%v\n%s", err, out)
	}
	var all []ranProgram
	for line := range strings.Lines(string(out)) {
		var r ranProgram
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &r) == nil {
			r.Out, r.Err = strings.ReplaceAll(r.Out, "\r\n", "\n"), strings.ReplaceAll(r.Err, "\r\n", "\n")
			all = append(all, r)
		}
	}
	if len(all) != len(w.Programs) {
		h.t.Fatalf("%d of %d programs ran:\n%s", len(all), len(w.Programs), out)
	}
	return all
}

// TestPrograms runs programs in containers of one host, as pods do.
func TestPrograms(t *testing.T) {
	h := startHost(t)
	h.write("layers/base/Files/note.txt", "of the image\r\n")
	h.built("client", "client.exe")
	h.built("app", "layers/base/Files/app.exe")
	for name, test := range map[string]func(*testing.T, *host){
		"drives": testDrives, "environment": testEnvironment, "arguments": testArguments, "stubs": testStubs, "ping": testPing, "links": testLinks,
	} {
		t.Run(name, func(t *testing.T) {
			here := *h
			here.t = t
			test(t, &here)
		})
	}
}

// testDrives mounts folders of the host at drive letters and below them, in every spelling.
func testDrives(t *testing.T, h *host) {
	for _, name := range []string{"root", "below", "deep", "other"} {
		h.write("shared-"+name+"/"+name+".txt", name)
	}
	out := h.ran(wantedPrograms{
		Mounts: []wantedMount{ // the outer one last: it must not hide the other
			{HostPath: `C:\shared-deep`, ContainerPath: `E:\data\deep`}, {HostPath: `C:\shared-root`, ContainerPath: `E:\`},
			{HostPath: `C:\shared-below`, ContainerPath: `D:\data`}, {HostPath: `C:\shared-other`, ContainerPath: `y:/Other/`, ReadOnly: true},
			{HostPath: `C:\shared-root`, ContainerPath: `F:`}, {HostPath: `C:\shared-below`, ContainerPath: `\\?\G:\below`},
		},
		Programs: []wantedProgram{
			{Line: `cmd /c type E:\data\deep\deep.txt & type E:\root.txt & type D:\data\below.txt & type Y:\other\other.txt & type F:\root.txt & type G:\below\below.txt`},
			{Line: `cmd /c echo new>D:\data\made.txt && type D:\data\made.txt`},
			{Line: `cmd /c echo new>Y:\other\made.txt`},
			{Line: `cmd /c echo own>D:\own.txt && type D:\own.txt`},
			{Line: `cmd /c dir H:\`},
		},
	})
	if want := "deeprootbelowotherrootbelow"; out[0].Out != want || out[0].Code != 0 {
		t.Errorf("the files are %+v, want %s", out[0], want)
	}
	if out[1].Code != 0 || strings.TrimSpace(out[1].Out) != "new" {
		t.Errorf("writing to D:\\data: %+v", out[1])
	}
	if text, err := os.ReadFile(filepath.Join(h.prefix.DriveC(), "shared-below", "made.txt")); err != nil || !strings.HasPrefix(string(text), "new") {
		t.Errorf("the host sees %q, %v", text, err)
	}
	if !strings.Contains(out[2].Err, "Access is denied.") {
		t.Errorf("writing to a read-only mount: %+v", out[2])
	}
	if out[3].Code != 0 || strings.TrimSpace(out[3].Out) != "own" {
		t.Errorf("writing to the root of D: %+v", out[3])
	}
	if out[4].Code == 0 {
		t.Errorf("there is a drive H: %+v", out[4])
	}
}

// testEnvironment: a program has Windows' variables, over them what was asked for, and nothing of Wine or of ours.
func testEnvironment(t *testing.T, h *host) {
	asked := map[string]string{"PATH": `C:\only`, "pathext": ".X", "windir": `C:\w`, "USERNAME": "me", "LC_ALL": "de_DE", "TEMP": `C:\t`, "COMPUTERNAME": "NAME",
		"HOME": "/root", "LONG": strings.Repeat("x", 30000), "EMPTY": "", "Ünï": "wörd €"}
	out := h.ran(wantedPrograms{Programs: []wantedProgram{
		{Line: `C:\app.exe environment`, Environment: asked},
		{Line: `C:\app.exe environment`, User: "ContainerUser"},
		{Line: `C:\windows\system32\cmd.exe /c set`, Environment: asked},
		{Line: `C:\windows\system32\cmd.exe /c C:\app.exe environment`},
		{Line: `C:\windows\system32\cmd.exe /c echo %WINEDLLDIR0% %WINELOADER% %WINEPREFIX% %LC_ALL%`},
	}})
	for i, r := range out {
		if r.Code != 0 || r.HResult != 0 {
			t.Fatalf("program %d: %+v", i, r)
		}
	}
	for _, i := range []int{0, 2} {
		have := variables(out[i].Out)
		for name, value := range asked {
			written := value != "" && (i == 0 || name[0] < 0x80) // cmd.exe writes in the console's code page
			if got, ok := have[strings.ToUpper(name)]; written && (!ok || got != value) {
				t.Errorf("program %d: %s is %.50q, %v; want %.50q", i, name, got, ok, value)
			}
		}
	}
	for _, i := range []int{1, 3} {
		have := variables(out[i].Out)
		for name, want := range map[string]string{"PATH": `C:\windows\system32`, "PATHEXT": ".COM;.EXE", "WINDIR": `C:\windows`, "SYSTEMROOT": `C:\windows`, "SYSTEMDRIVE": "C:",
			"COMSPEC": `C:\windows\system32\cmd.exe`, "COMPUTERNAME": "POD-A", "OS": "Windows_NT", "PROCESSOR_ARCHITECTURE": "AMD64", "TEMP": `C:\`, "USERNAME": "Container"} {
			if !strings.HasPrefix(strings.ToLower(have[name]), strings.ToLower(want)) {
				t.Errorf("program %d: %s is %q, want %s…", i, name, have[name], want)
			}
		}
	}
	if have := variables(out[1].Out)["USERNAME"]; have != "ContainerUser" {
		t.Errorf("the user is %s", have)
	}
	for i, r := range out[:4] {
		for name, value := range variables(r.Out) {
			ours := strings.HasPrefix(name, "WINE") || strings.HasPrefix(name, "PORTHOLE") || strings.HasPrefix(name, "HNSD") ||
				slices.Contains([]string{"FONTCONFIG_FILE", "LC_ALL", "HOME", "PWD", "SHLVL", "_"}, name)
			if _, ok := asked[name]; ours && (!ok || i%2 != 0) {
				t.Errorf("program %d sees %s=%s", i, name, value)
			}
		}
	}
	if want := "%WINEDLLDIR0% %WINELOADER% %WINEPREFIX% %LC_ALL%"; strings.TrimSpace(out[4].Out) != want {
		t.Errorf("cmd shows %s", out[4].Out)
	}
}

// variables reads lines of NAME=VALUE; names are in capitals.
func variables(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[strings.ToUpper(name)] = value
	}
	return all
}

// testArguments: a program gets its arguments as they were quoted, text with any ends of lines passes through, and names of files on C: are
// found in any case.
func testArguments(t *testing.T, h *host) {
	out := h.ran(wantedPrograms{Programs: []wantedProgram{
		{Line: `C:\app.exe arguments "a b" "c\"d" e\\f "g\\" "" 'h i' "j k"l m"n o" %PATH% ^& "ü €"`},
		{Line: `"C:\app.exe" arguments "\\server\share\\" --x="y z"`},
		{Line: `cmd /c type c:\NOTE.TXT & type C:\Note.Txt`},
		{Line: `cmd /c echo x>C:\Mixed.Txt&echo y>>C:\mIXED.tXT&type C:\MIXED.TXT&dir /b C:\mixed*`},
		{Line: `C:\APP.EXE copy`, Input: "one\r\ntwo\nthree\r\n\r\n"},
	}})
	var got []string
	if err := json.Unmarshal([]byte(out[0].Out), &got); err != nil {
		t.Errorf("%+v: %v", out[0], err)
	}
	if want := []string{"arguments", "a b", `c"d`, `e\\f`, `g\`, "", "'h", "i'", "j kl", `mn o`, "%PATH%", "^&", "ü €"}; !slices.Equal(got, want) {
		t.Errorf("the arguments are %q, want %q", got, want)
	}
	got = nil
	if err := json.Unmarshal([]byte(out[1].Out), &got); err != nil || !slices.Equal(got, []string{"arguments", `\\server\share\`, `--x=y z`}) {
		t.Errorf("the arguments are %q, %v", got, err)
	}
	if want := "of the image\nof the image\n"; out[2].Out != want {
		t.Errorf("in another case: %+v", out[2])
	}
	if want := "x\ny\nMixed.Txt\n"; out[3].Out != want {
		t.Errorf("a file of two spellings: %q, want %q", out[3].Out, want)
	}
	if want := "one\ntwo\nthree\n\n"; !strings.HasPrefix(out[4].Out, want) {
		t.Errorf("the lines are %q", out[4].Out)
	}
}

// testStubs: what an emulated host does not have is not found. Wine has programs of these names that do nothing and report success.
func testStubs(t *testing.T, h *host) {
	lines := []string{`powershell -Command "exit 3"`, `powershell.exe -Command "exit 0"`, `pwsh -c "exit 0"`, `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -c 1`,
		`icacls C:\ /grant x:F`, `C:\Windows\System32\icacls.exe C:\`, `tasklist`}
	var w wantedPrograms
	for _, line := range lines {
		w.Programs = append(w.Programs, wantedProgram{Line: line}, wantedProgram{Line: "cmd /c " + line})
	}
	for i, r := range h.ran(w) {
		if i%2 == 0 && r.HResult != 0x80070002 && r.HResult != 0x80070003 {
			t.Errorf("%s: %+v", w.Programs[i].Line, r)
		}
		if i%2 == 1 && r.Code == 0 {
			t.Errorf("%s: %+v", w.Programs[i].Line, r)
		}
	}
}

// testPing: the usual sleep of hooks and scripts, to the container itself.
func testPing(t *testing.T, h *host) {
	out := h.ran(wantedPrograms{Programs: []wantedProgram{{Line: "ping -n 2 127.0.0.1"}, {Line: "ping -n 1 -l 100 ::1"}, {Line: "ping -n 1 192.0.2.1"}, {Line: "cmd /c ping -n 1 localhost > nul"}}})
	if r := out[0]; r.Code != 0 || strings.Count(r.Out, "Reply from 127.0.0.1: bytes=32 time") != 2 || !strings.Contains(r.Out, "TTL=") || !strings.Contains(r.Out, "Sent = 2, Received = 2, Lost = 0 (0% loss)") {
		t.Errorf("%+v", r)
	}
	if r := out[1]; r.Code != 0 || !strings.Contains(r.Out, "Reply from ::1: time") {
		t.Errorf("%+v", r)
	}
	if r := out[2]; r.Code != 1 || !strings.Contains(r.Out, "Lost = 1 (100% loss)") {
		t.Errorf("%+v", r)
	}
	if r := out[3]; r.Code != 0 {
		t.Errorf("%+v", r)
	}
}

// testLinks: a link with a whole path leads to that path of whoever reads it, as the logs of containers that collectors read do.
func testLinks(t *testing.T, h *host) {
	h.write("logs/pods/0.log", "of a pod")
	h.write("logs/containers/note", "")
	h.built("app", "app.exe")
	for link, target := range map[string]string{`C:\logs\containers\x.log`: `C:\logs\pods\0.log`, `C:\logs\containers\moved.log`: `C:\logs\pods\0.log`, `C:\logs\folder`: `C:\logs\pods`,
		`C:\logs\dots`: `.\pods\..\pods`} {
		if out, err := h.command(`C:\app.exe`, "link", target, link).Output(); err != nil && !errors.Is(err, exec.ErrWaitDelay) || !strings.Contains(string(out), "<nil>") {
			t.Fatalf("%s: %v\n%s", link, err, out)
		}
	}
	out := h.ran(wantedPrograms{
		Mounts: []wantedMount{{HostPath: `C:\logs`, ContainerPath: `C:\logs`}},
		Programs: []wantedProgram{
			{Line: `cmd /c type C:\logs\containers\x.log & type C:\logs\folder\0.log & type C:\logs\dots\0.log`},
			{Line: `C:\app.exe readlink C:\logs\containers\x.log`},
			{Line: `C:\app.exe readlink C:\logs\dots`},
			{Line: `C:\app.exe link C:\logs\pods\0.log C:\logs\containers\of-container.log`},
			{Line: `cmd /c mkdir C:\logs\a\b & move C:\logs\containers\moved.log C:\logs\a\b\moved.log & type C:\logs\a\b\moved.log`},
			{Line: `C:\app.exe link C:\note.txt C:\root-link`},
			{Line: `cmd /c type C:\root-link`},
			{Line: `C:\app.exe readlink C:\root-link`},
		},
	})
	for i, want := range map[int]string{0: "of a podof a podof a pod", 1: `C:\logs\pods\0.log <nil>`, 2: `.\pods\..\pods <nil>`, 3: "<nil>", 6: "of the image", 7: `C:\note.txt <nil>`} {
		if strings.TrimSpace(out[i].Out) != want {
			t.Errorf("program %d: %+v, want %q", i, out[i], want)
		}
	}
	if !strings.HasSuffix(out[4].Out, "of a pod") {
		t.Errorf("a link that was moved: %+v", out[4])
	}
	for _, link := range []string{"containers/of-container.log", "a/b/moved.log"} {
		if text, err := os.ReadFile(filepath.Join(h.prefix.DriveC(), "logs", link)); err != nil || string(text) != "of a pod" {
			t.Errorf("the host reads %q, %v from %s", text, err, link)
		}
	}
}
