package joinwindows

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/join/step"
)

// TestArchive joins from the archive for Windows that `make release` makes. It is unpacked into a folder whose name
// has spaces, and the programs are installed on another drive, in a folder whose path is long. A damaged program is
// refused before anything is changed. After `leave` only the archive is left.
// Rows 1.111, 1.115.
func TestArchive(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("takes a minute: PORTHOLE_JOIN=20348 or `make test-join`")
	}
	h := newHost(t, "win83", "20348")
	if err := os.RemoveAll(h.path("porthole")); err != nil { // only the archive has programs
		t.Fatal(err)
	}
	before, routes := h.files(), h.routes()
	const place = "Our downloads/from the archive"
	unzip(h, windowsZip(t), place)
	exe := `C:\` + strings.ReplaceAll(place, "/", `\`) + `\porthole.exe`
	self := filepath.Join(state, "hosts", h.name)
	err := errors.Join(guest.AddDrive(self, 'd'), testkit.OwnGuest(filepath.Join(self, "prefix"), "drive_d"))
	if err != nil {
		t.Fatal(err)
	}
	long := `D:\Programs of ours` + strings.Repeat(`\a folder of a long path`, 6)
	_, line := h.token()
	line = append(line, "--install-dir", long)

	whole, err := os.ReadFile(h.path(place + "/kube-proxy.exe"))
	if err != nil {
		t.Fatal(err)
	}
	h.write(place+"/kube-proxy.exe", string(whole[:len(whole)-1])+"x")
	if out, code := h.exe(exe, line...); code == 0 || !strings.Contains(out, "kube-proxy.exe is damaged") ||
		!strings.Contains(out, "unpack the archive again") {
		t.Errorf("a damaged program: exit code %d: %s", code, out)
	}
	if after := h.files(); !slices.Equal(after, before) {
		t.Errorf("after a refusal the files are %v, before %v", after, before)
	}
	h.write(place+"/kube-proxy.exe", string(whole))

	out, code := h.exe(exe, line...)
	if code != 0 || !strings.Contains(out, "node "+h.name+" is Ready") {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, name := range []string{"porthole-routes", "kube-proxy", "kubelet"} {
		if s := h.service(name); !strings.HasPrefix(s.Path, `"`+long+`\`) {
			t.Errorf("the service %s runs %s, want a program in %s, in quotes", name, s.Path, long)
		}
	}
	h.podWorks("from the archive")

	if r, code := reportOf(h, exe, "join", "--install-dir", long); code != 0 || r.Outcome != step.Unchanged {
		t.Errorf("a second join: exit code %d, changes %v: %s", code, done(r), r.Error)
	}
	if out, code := h.exe(exe, "leave"); code != 0 || !strings.Contains(out, "nothing of Porthole is left") {
		t.Errorf("leave: exit code %d\n%s", code, out)
	}
	if after := h.files(); !slices.Equal(after, before) {
		t.Errorf("files: %v, before %v", after, before)
	}
	if after := h.routes(); !slices.Equal(after, routes) {
		t.Errorf("routes: %v, before %v", after, routes)
	}
	// the pattern is right
	if left, _ := filepath.Glob(filepath.Join(self, "prefix/drive_d/Programs of ours/*/*/*/*/*/*/*/*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if out, err := h.kubectl("delete", "node/"+h.name, "pod/web-"+h.name, "service/web-"+h.name,
		"--force"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// windowsZip makes the archive for Windows of the programs under test, and returns its path.
func windowsZip(t *testing.T) string {
	t.Helper()
	const version = "v0.0.1-test"
	dir := t.TempDir()
	release := exec.Command("go", "run", "./tools/release", "-version", version, "-out", dir, "-only", "windows")
	release.Dir = "../.."
	if out, err := release.CombinedOutput(); err != nil {
		t.Fatalf("making the archive: %v\n%s", err, out)
	}
	return filepath.Join(dir, "porthole-"+version+"-windows-amd64.zip")
}

// unzip unpacks an archive into a folder of C:.
func unzip(h *host, file, dir string) {
	h.t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		h.t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		text, err := contents(f)
		if err != nil {
			h.t.Fatalf("%s: %v", f.Name, err)
		}
		h.write(dir+"/"+f.Name, text)
	}
}

func contents(f *zip.File) (string, error) {
	r, err := f.Open()
	if err != nil {
		return "", fmt.Errorf("opening: %w", err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}
