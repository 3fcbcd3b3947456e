package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNerdctl has nerdctl.exe, unmodified, pull an image and run containers from it. They have no network: nerdctl's networks on Windows need
// the CNI plugin nat.exe.
func TestNerdctl(t *testing.T) {
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		t.Skip("takes half a minute: PORTHOLE_RUNTIME=long, or `make test-runtime`")
	}
	w := buildPrograms(t).newWorld(t, "20348")
	w.useRegistry()
	program, err := os.ReadFile(filepath.Join(filepath.Dir(w.porthole), "bundle", "windows", "nerdctl.exe"))
	if err != nil {
		t.Fatalf("%v (run `make nerdctl`)", err)
	}
	w.write("tools/nerdctl.exe", string(program))
	nerdctl := func(args ...string) string {
		return w.must(append([]string{"run", w.name, "--", `C:\tools\nerdctl.exe`}, args...)...)
	}

	if out := nerdctl("version"); !strings.Contains(out, containerd) {
		t.Errorf("nerdctl version does not show containerd %s:\n%s", containerd, out)
	}
	nerdctl("--hosts-dir", `C:\etc\containerd\certs.d`, "pull", "--quiet", testImage)
	if out := nerdctl("images"); !strings.Contains(out, "porthole/testapp") || !strings.Contains(out, "windows/amd64") {
		t.Errorf("images:\n%s", out)
	}
	if out := nerdctl("run", "--rm", "--net", "none", "--env", "GIVEN=here", testImage, "env"); !strings.Contains(out, "GIVEN=here") {
		t.Errorf("the container prints:\n%s", out)
	}

	nerdctl("run", "--detach", "--name", "one", "--net", "none", testImage, "sleep")
	if out := nerdctl("ps"); !strings.Contains(out, "one") || !strings.Contains(out, "Up") {
		t.Errorf("ps:\n%s", out)
	}
	if out := nerdctl("exec", "one", `C:\testapp.exe`, "env"); !strings.Contains(out, `windir=C:\windows`) {
		t.Errorf("exec prints:\n%s", out)
	}
	nerdctl("stop", "--time", "1", "one")
	nerdctl("rm", "one")
	if out := nerdctl("ps", "--all"); strings.Contains(out, "one") {
		t.Errorf("ps --all after rm:\n%s", out)
	}
}
