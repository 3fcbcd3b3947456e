package serve

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
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
		"drives": testDrives, "environment": testEnvironment, "arguments": testArguments, "stubs": testStubs,
		"ping": testPing, "links": testLinks, "stand-ins": testStandIns, "tar": testTar, "sockets": testSockets,
		"usage": testUsage, "read-only files": testReadOnly, "handles": testHandles,
		"users": testUsers, "mounts": testMounts,
	} {
		t.Run(name, func(t *testing.T) {
			here := *h
			here.t = t
			test(t, &here)
		})
	}
}

// testHandles: the standard handles of a program are pipes for every call that Windows has for these. Of the input four
// bytes wait to be read.
func testHandles(t *testing.T, h *host) {
	r := h.ran(wantedPrograms{Programs: []wantedProgram{{Line: `C:\app.exe handles`, Input: "hello"}}})[0]
	if r.Err != "" || r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for i, local := range []string{"<nil> 1 4 3 true", "<nil> 0 0 3 true", "<nil> 0 0 3 true"} {
		peek := "peek 0  0" // one can only look into what one reads
		if i == 0 {
			peek = "peek 1 el 4"
		}
		for _, want := range []string{"type 3 <nil>", peek, "bytes <nil>", "messages true", "info <nil> 0 true true 1",
			"local " + local, "short true"} {
			if line := fmt.Sprintln(i, want); !strings.Contains(r.Out, line) {
				t.Errorf("missing: %s", line)
			}
		}
	}
	if t.Failed() {
		t.Logf("%s", r.Out)
	}
}

// testReadOnly: programs are no root for Linux, and yet remove their files that are read-only, as on Windows. On the
// host as well.
func testReadOnly(t *testing.T, h *host) {
	h.built("app", "app.exe")
	out, err := h.command(`C:\app.exe`, "read-only", `C:\read-only`).Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) || !strings.Contains(string(out), "<nil>") {
		t.Errorf("on the host: %v\n%s", err, out)
	}
	programs := []wantedProgram{{Line: `C:\app.exe read-only C:\read-only`},
		{Line: `C:\app.exe read-only C:\ours`, User: "ContainerUser"}}
	for i, r := range h.ran(wantedPrograms{Programs: programs}) {
		if strings.TrimSpace(r.Out) != "<nil>" {
			t.Errorf("program %d in a container: %+v", i, r)
		}
	}
}

// testDrives mounts folders of the host at drive letters and below them, in every spelling.
func testDrives(t *testing.T, h *host) {
	for _, name := range []string{"root", "below", "deep", "other"} {
		h.write("shared-"+name+"/"+name+".txt", name)
	}
	out := h.ran(wantedPrograms{
		Mounts: []wantedMount{ // the outer one last: it must not hide the other
			{HostPath: `C:\shared-deep`, ContainerPath: `E:\data\deep`},
			{HostPath: `C:\shared-root`, ContainerPath: `E:\`},
			{HostPath: `C:\shared-below`, ContainerPath: `D:\data`},
			{HostPath: `C:\shared-other`, ContainerPath: `y:/Other/`, ReadOnly: true},
			{HostPath: `C:\shared-root`, ContainerPath: `F:`},
			{HostPath: `C:\shared-below`, ContainerPath: `\\?\G:\below`},
		},
		Programs: []wantedProgram{
			{
				Line: `cmd /c type E:\data\deep\deep.txt & type E:\root.txt & type D:\data\below.txt & type Y:\other\other.txt & type F:\root.txt & type G:\below\below.txt`},
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
	if text, err := os.ReadFile(filepath.Join(h.prefix.DriveC(), "shared-below", "made.txt")); err != nil ||
		!strings.HasPrefix(string(text), "new") {
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
	asked := map[string]string{"PATH": `C:\only`, "pathext": ".X", "windir": `C:\w`, "USERNAME": "me",
		"LC_ALL": "de_DE", "TEMP": `C:\t`, "COMPUTERNAME": "NAME",
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
		for name, want := range map[string]string{"PATH": `C:\windows\system32`, "PATHEXT": ".COM;.EXE",
			"WINDIR": `C:\windows`, "SYSTEMROOT": `C:\windows`, "SYSTEMDRIVE": "C:",
			"COMSPEC": `C:\windows\system32\cmd.exe`, "COMPUTERNAME": "POD-A", "OS": "Windows_NT",
			"PROCESSOR_ARCHITECTURE": "AMD64", "TEMP": `C:\`, "USERNAME": "Container"} {
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
			ours := strings.HasPrefix(name, "WINE") || strings.HasPrefix(name, "PORTHOLE") ||
				strings.HasPrefix(name, "HNSD") ||
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

// testArguments: a program gets its arguments as they were quoted, text with any ends of lines passes through, and
// names of files on C: are found in any case.
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
	if want := []string{"arguments", "a b", `c"d`, `e\\f`, `g\`, "", "'h", "i'", "j kl", `mn o`, "%PATH%", "^&",
		"ü €"}; !slices.Equal(got, want) {
		t.Errorf("the arguments are %q, want %q", got, want)
	}

	got = nil
	if err := json.Unmarshal([]byte(out[1].Out), &got); err != nil ||
		!slices.Equal(got, []string{"arguments", `\\server\share\`, `--x=y z`}) {
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

// testStubs: what an emulated host does not have is not found. Wine has programs of these names that do nothing and
// report success.
func testStubs(t *testing.T, h *host) {
	h.write("layers/base/Files/tools/note", "")
	h.built("app", "layers/base/Files/tools/powershell.exe")
	h.built("app", "tools/powershell.exe")
	lines := []string{`powershell -Command "exit 3"`, `powershell.exe -Command "exit 0"`, `pwsh -c "exit 0"`,
		`C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -c 1`,
		`icacls C:\ /grant x:F`, `C:\Windows\System32\icacls.exe C:\`, `tasklist`}
	var w wantedPrograms
	for _, line := range lines {
		w.Programs = append(w.Programs, wantedProgram{Line: line}, wantedProgram{Line: "cmd /c " + line})
	}
	w.Programs = append(w.Programs, wantedProgram{Line: `C:\tools\powershell.exe arguments of-the-image`},
		wantedProgram{Line: `cmd /c C:\tools\powershell arguments of-the-image`})

	ran := h.ran(w)
	for i, r := range ran[len(ran)-2:] {
		if strings.TrimSpace(r.Out) != `["arguments","of-the-image"]` {
			t.Errorf("a powershell.exe of the image, %d: %+v", i, r)
		}
	}
	out, err := h.command(`C:\tools\powershell.exe`, "arguments", "of-the-host").Output()
	if strings.TrimSpace(string(out)) != `["arguments","of-the-host"]` {
		t.Errorf("a powershell.exe of the host: %v\n%s", err, out)
	}
	for i, r := range ran[:len(ran)-2] {
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
	out := h.ran(wantedPrograms{Programs: []wantedProgram{{Line: "ping -n 2 127.0.0.1"}, {Line: "ping -n 1 -l 100 ::1"},
		{Line: "ping -n 1 192.0.2.1"}, {Line: "cmd /c ping -n 1 localhost > nul"}}})
	if r := out[0]; r.Code != 0 || strings.Count(r.Out, "Reply from 127.0.0.1: bytes=32 time") != 2 ||
		!strings.Contains(r.Out, "TTL=") || !strings.Contains(r.Out, "Sent = 2, Received = 2, Lost = 0 (0% loss)") {
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

// testLinks: a link with a whole path leads to that path of whoever reads it, as the logs of containers that
// collectors read do.
func testLinks(t *testing.T, h *host) {
	h.write("logs/pods/0.log", "of a pod")
	h.write("logs/containers/note", "")
	h.built("app", "app.exe")
	for link, target := range map[string]string{`C:\logs\containers\x.log`: `C:\logs\pods\0.log`,
		`C:\logs\containers\moved.log`: `C:\logs\pods\0.log`, `C:\logs\folder`: `C:\logs\pods`,
		`C:\logs\dots`: `.\pods\..\pods`} {
		if out, err := h.command(`C:\app.exe`, "link", target, link).Output(); err != nil &&
			!errors.Is(err, exec.ErrWaitDelay) || !strings.Contains(string(out), "<nil>") {
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
			{
				Line: `cmd /c mkdir C:\logs\a\b & move C:\logs\containers\moved.log C:\logs\a\b\moved.log & type C:\logs\a\b\moved.log`},
			{Line: `C:\app.exe link C:\note.txt C:\root-link`},
			{Line: `cmd /c type C:\root-link`},
			{Line: `C:\app.exe readlink C:\root-link`},
		},
	})

	for i, want := range map[int]string{0: "of a podof a podof a pod", 1: `C:\logs\pods\0.log <nil>`,
		2: `.\pods\..\pods <nil>`, 3: "<nil>", 6: "of the image", 7: `C:\note.txt <nil>`} {
		if strings.TrimSpace(out[i].Out) != want {
			t.Errorf("program %d: %+v, want %q", i, out[i], want)
		}
	}
	if !strings.HasSuffix(out[4].Out, "of a pod") {
		t.Errorf("a link that was moved: %+v", out[4])
	}
	for _, link := range []string{"containers/of-container.log", "a/b/moved.log"} {
		if text, err := os.ReadFile(filepath.Join(h.prefix.DriveC(), "logs", link)); err != nil ||
			string(text) != "of a pod" {
			t.Errorf("the host reads %q, %v from %s", text, err, link)
		}
	}
}

// testStandIns: our own programs in the place of Windows', with arguments that are right, wrong and missing. None of
// them ends by a fault, and an error has a message.
func testStandIns(t *testing.T, h *host) {
	var w wantedPrograms
	var right []func(ranProgram) bool
	for _, c := range []struct {
		line, in string
		code     uint32
		want     string // in output or errors
	}{
		{"curl", "", 2, "curl: (2) no URL specified"}, {"curl --nonsense x", "", 2, "is unknown"},
		{"curl -s -S -m 5 http://127.0.0.1:9/", "", 7, "Failed to connect to 127.0.0.1 port 9"},
		{"curl -V", "", 0, "curl 8."}, {"curl https://", "", 3, "curl: (3)"},
		{"curl -sS http://name.invalid/", "", 6, "Could not resolve host: name.invalid"},
		{"findstr", "", 2, ""}, {"findstr /q", "", 2, ""}, {"findstr x C:\\absent.txt", "", 1, ""},
		{"findstr two", "one\r\ntwo\r\n", 0, "two"},
		{"hostname", "", 0, "pod-a"}, {"hostname /x", "", 0, "pod-a"},
		{"ipconfig", "", 0, "Windows IP Configuration"}, {"ipconfig /all", "", 0, "Host Name"},
		{"ipconfig /nonsense", "", 1, "USAGE"},
		{"more.com", "a\r\n\tb\r\n", 0, "a\n        b"}, {"more.com /x", "", 1, "Invalid switch"},
		{"more.com C:\\absent", "", 1, "Cannot access file"}, {"more.com +1 C:\\note.txt", "", 0, ""},
		{"net", "", 1, ""}, {"net nonsense", "", 0, "The syntax of this command is"}, {"net user nobody", "", 2, ""},
		{"net user", "", 1, "syntax"},
		{"nltest", "", 1, "Usage"}, {"nltest /query", "", 1, "failed"}, {"nltest /x", "", 1, "Usage"},
		{"nslookup", "", 1, "Usage"}, {"nslookup -nonsense x", "", 1, "Invalid option"},
		{"nslookup -timeout=1 x 127.0.0.1", "", 1, "timed-out"},
		{"ping", "", 1, "Usage"}, {"ping -n", "", 1, "Value must be supplied"},
		{"ping -n x 127.0.0.1", "", 1, "Bad value"}, {"ping -z 127.0.0.1", "", 1, "Bad option"},
		{"ping name.invalid", "", 1, "could not find host"},
		{"shutdown", "", 1, "Usage"}, {"shutdown /nonsense", "", 1, "Usage"}, {"shutdown /t", "", 1, "Usage"},
		{"shutdown /a", "", 1722, "cannot be restarted"},
		{"sort", "b\r\nA\r\nc\r\n", 0, "A\nb\nc"}, {"sort /r", "b\r\na", 0, "b\na"},
		{"sort /nonsense", "", 1, "Invalid switch"}, {"sort C:\\absent", "", 1, "cannot find the file"},
		{"sort /+2", "bx\nay\ncw\n", 0, "cw\nbx\nay"},
		{"tar", "", 1, "Must specify one of"}, {"tar -q", "", 1, "not supported"},
		{"tar -xf C:\\absent.tar", "", 1, "Failed to open"}, {"tar -cf", "", 1, "requires an argument"},
		{"tar xf -", "no archive", 1, "Error reading archive"},
		{"timeout", "", 1, "Timeout value must be specified"},
		{"timeout /t 1", "", 1, "Input redirection is not supported"}, {"timeout /t x", "", 1, "Invalid value"},
		{"timeout 1 2", "", 1, "not allowed more than"}, {"timeout /t", "", 1, "Value expected"},
		{"where cmd", "", 0, "cmd.exe"}, {"where", "", 2, "syntax of the command is incorrect"},
		{"where absent", "", 1, "Could not find files"}, {"where /q absent", "", 1, ""},
		{"where /r C:\\ app.exe", "", 0, `C:\app.exe`}, {"where /x", "", 2, "Invalid argument"},
		{"whoami", "", 0, "containeradministrator"}, {"whoami /x", "", 1, "Invalid argument"},
		{"whoami /user", "", 0, "S-1-5-93-2-1"},
	} {
		w.Programs = append(w.Programs, wantedProgram{Line: c.line, Input: c.in})
		right = append(right, func(r ranProgram) bool {
			return r.HResult == 0 && r.Code == c.code && strings.Contains(r.Out+r.Err, c.want)
		})
	}

	for i, r := range h.ran(w) {
		if !right[i](r) {
			t.Errorf("%s: %+v", w.Programs[i].Line, r)
		}
	}
}

// testTar does what `kubectl cp` does in both directions: an archive on the standard streams, with names longer than
// ustar has.
func testTar(t *testing.T, h *host) {
	long := strings.Repeat("folder with a long name/", 9) + strings.Repeat("n", 110) + ".txt"
	h.write("copied/in/"+long, "deep")
	h.write("copied/in/a.txt", "a\r\nb")
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, text := range map[string]string{long: "deep", "in/a.txt": "a\r\nb", "../out.txt": "no"} {
		check(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}))
		_, err := w.Write([]byte(text))
		check(t, err)
	}
	check(t, w.Close())
	h.write("copied/hostile.tar", archive.String())

	out := h.ran(wantedPrograms{
		Mounts: []wantedMount{{HostPath: `C:\copied`, ContainerPath: `C:\copied`}},
		Programs: []wantedProgram{
			{Line: `cmd /c mkdir C:\copied\to & cd /d C:\copied & tar cf - in | tar xmf - -C C:\copied\to`},
			{Line: `tar -xf C:\copied\hostile.tar -C C:\copied\to`},
			{Line: `cmd /c tar cf - /copied/in/a.txt | tar tf -`},
		},
	})
	if out[0].Code != 0 {
		t.Errorf("%+v", out[0])
	}
	for _, name := range []string{"in/" + long, "in/a.txt", long} {
		want := map[bool]string{true: "a\r\nb", false: "deep"}[name == "in/a.txt"]
		if text, err := os.ReadFile(filepath.Join(h.prefix.DriveC(), "copied", "to", name)); err != nil ||
			string(text) != want {
			t.Errorf("%.30s: %q, %v", name, text, err)
		}
	}
	if out[1].Code != 1 || !strings.Contains(out[1].Err, "'..'") {
		t.Errorf("an entry that goes up: %+v", out[1])
	}
	if _, err := os.Stat(filepath.Join(h.prefix.DriveC(), "copied", "out.txt")); err == nil {
		t.Error("an entry has gone up")
	}
	if want := "copied/in/a.txt\n"; out[2].Out != want {
		t.Errorf("names from the root: %+v", out[2])
	}
}

// testSockets: a socket that is a file in a folder of the host joins programs of the host and of a container, in both
// directions. Who finds the port of the loopback behind it reaches nobody.
func testSockets(t *testing.T, h *host) {
	h.built("app", "app.exe")
	h.write("csi/note", "")
	before := listening(t)
	server := h.command(`C:\app.exe`, "listen", `C:\csi\host.sock`)
	said := &testkit.Buffer{}
	server.Stdout = said
	check(t, server.Start())
	wait.True(t, time.Minute, "a program of the host listens",
		func() bool { return strings.Contains(said.String(), "ready") })
	strangers := 0
	for _, port := range listening(t) {
		if slices.Contains(before, port) {
			continue
		}
		if c, err := net.Dial("tcp4", "127.0.0.1:"+port); err == nil {
			strangers++
			_, _ = c.Write([]byte("stranger"))
			check(t, c.SetDeadline(time.Now().Add(time.Minute)))
			answer, _ := io.ReadAll(c) // the end, or that it was cut off
			if len(answer) > 0 {
				t.Errorf("a stranger is answered %q", answer)
			}
			c.Close()
		}
	}
	if strangers == 0 {
		t.Error("there is no port of the loopback")
	}

	dialled := make(chan string, 1)
	socket := filepath.Join(h.prefix.DriveC(), "csi", "container.sock")
	go func() { // while the container's program listens
		got := ""
		defer func() { dialled <- got }()
		wait.True(t, time.Minute, "the container's socket",
			func() bool { st, err := os.Stat(socket); return err == nil && st.Mode().Type() == os.ModeSocket })
		out, err := h.command(`C:\app.exe`, "dial", `C:\csi\container.sock`, "end").Output()
		got = fmt.Sprint(strings.TrimSpace(string(out)), " ", err == nil || errors.Is(err, exec.ErrWaitDelay))
	}()
	out := h.ran(wantedPrograms{
		Mounts: []wantedMount{{HostPath: `C:\csi`, ContainerPath: `C:\csi`},
			{HostPath: `C:\csi`, ContainerPath: `D:\other name`}},
		Programs: []wantedProgram{
			{Line: `C:\app.exe dial \csi\host.sock hello`}, {Line: `C:\app.exe dial "D:\other name\host.sock" much*`},
			{Line: `C:\app.exe dial C:\csi\absent.sock x`},
			{Line: `C:\app.exe dial C:\csi\host.sock end`}, {Line: `C:\app.exe dial C:\csi\host.sock nobody`},
			{Line: `C:\app.exe listen C:\csi\container.sock`},
		},
	})
	for i, want := range map[int]string{0: "true <nil>", 1: "true <nil>", 3: "true <nil>",
		5: "ready\n3 end <nil>\n<nil>"} {
		if strings.TrimSpace(out[i].Out) != want {
			t.Errorf("program %d: %+v, want %q", i, out[i], want)
		}
	}
	for _, i := range []int{2, 4} {
		if !strings.Contains(out[i].Out, "refused") {
			t.Errorf("program %d: %+v", i, out[i])
		}
	}
	if got := <-dialled; got != "true <nil> true" {
		t.Errorf("a program of the host is answered %s", got)
	}
	if err := server.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("%v: %s", err, said)
	}
	if got := strings.ReplaceAll(said.String(), "\r\n",
		"\n"); got != "ready\n5 hello <nil>\n4194304 muchmuchmu <nil>\n3 end <nil>\n<nil>\n" {
		t.Errorf("the listener says %q", got)
	}
}

// listening are the ports of the loopback that somebody listens at.
func listening(t *testing.T) (ports []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	check(t, err)
	for line := range strings.Lines(string(text)) {
		// proc(5): the state, the address
		if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" && strings.HasPrefix(f[1], "0100007F:") {
			port, err := strconv.ParseUint(f[1][9:], 16, 16)
			check(t, err)
			ports = append(ports, strconv.FormatUint(port, 10))
		}
	}
	return ports
}

// testUsage: the file of a container's disk has the size of what the container has written, by which containerd
// measures it, and no longer when the container has removed that.
func testUsage(t *testing.T, h *host) {
	disk := filepath.Join(h.prefix.DriveC(), "layers", "scratch", "sandbox.vhdx")
	size := func() int64 {
		st, err := os.Stat(disk)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	release := filepath.Join(h.prefix.DriveC(), "release")
	check(t, os.MkdirAll(release, 0o755))
	var before, full, after int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		steps := []func() bool{
			func() bool { before = size(); return before > 1000 }, // the registry and the like lie elsewhere: folders
			func() bool { full = size(); return full >= 30<<20 },
			func() bool { after = size(); return after < 1<<20 },
		}
		for i, step := range steps {
			wait.True(t, 2*time.Minute, fmt.Sprintf("step %d of the disk's size", i), step)
			check(t, os.WriteFile(filepath.Join(release, strconv.Itoa(i)), nil, 0o600))
		}
	}()

	await := func(i int) string {
		return fmt.Sprintf(`cmd /c "for /l %%i in (1,1,1000000) do if exist C:\release\%d exit 0"`, i)
	}
	out := h.ran(wantedPrograms{Mounts: []wantedMount{{HostPath: `C:\release`, ContainerPath: `C:\release`}},
		Programs: []wantedProgram{
			{Line: await(0)}, {Line: `C:\app.exe fill C:\full`}, {Line: await(1)}, {Line: `cmd /c del C:\full`},
			{Line: await(2)},
		}})
	<-done
	if strings.TrimSpace(out[1].Out) != "<nil>" || before >= 1<<20 || full > 31<<20 {
		t.Errorf("the disk has %d, %d and %d bytes: %+v", before, full, after, out)
	}
}
