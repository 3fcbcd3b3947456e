package runtime

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/hnsd/control"
)

// TestNerdctl has nerdctl.exe, unmodified, pull an image and run containers from it, without a network and on one of
// ours.
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
	if out := nerdctl("run", "--rm", "--net", "none", "--env", "GIVEN=here", testImage, "env"); !strings.Contains(out,
		"GIVEN=here") {
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

	w.useNetwork()
	useNerdctlNetwork(w)
	before := networkThings(w)
	on := []string{"--cni-path", `C:\opt\cni\bin`, "--cni-netconfpath", `C:\etc\nerdctl`}
	if out := nerdctl(append(on, "run", "--rm", "--net", "porthole", testImage, "addresses")...); !strings.Contains(out,
		"10.244.8.") {
		t.Errorf("the container's addresses are\n%s", out)
	}
	if after := networkThings(w); after.Namespaces != before.Namespaces+1 || after.Endpoints != 0 {
		t.Errorf("HNS had %+v and has %+v, want a namespace more, which nerdctl leaves, and no endpoint", before, after)
	}
}

// useNerdctlNetwork installs win-bridge.exe as nerdctl can use it. On Windows it takes networks whose plugin is called
// nat only, and ends if there is no such plugin, whatever network it is asked for
// (pkg/containerutil/container_network_manager_windows.go of nerdctl 1.7.7).
func useNerdctlNetwork(w *world) {
	w.t.Helper()
	plugin := filepath.Join(w.driveC(), "opt", "cni", "bin", "nat.exe")
	command(w.t, forWindows, "go", "build", "-o", plugin, "porthole.dev/porthole/cmd/win-bridge")
	var conf map[string]any
	if err := json.Unmarshal([]byte(winBridge), &conf); err != nil {
		w.t.Fatal(err)
	}
	conf["type"] = "nat"
	list, err := json.Marshal(map[string]any{"cniVersion": conf["cniVersion"], "name": conf["name"],
		"nerdctlID": strings.Repeat("1", 64), "plugins": []any{conf}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("etc/nerdctl/porthole.conflist", string(list))
}

// counted is how many objects HNS has of what a container's network consists of.
type counted struct{ Namespaces, Endpoints int }

func networkThings(w *world) counted {
	w.t.Helper()
	var all struct{ Namespaces, Endpoints []any }
	if err := control.Host(filepath.Join(w.dir, "hosts", w.name)).
		Call(w.t.Context(), http.MethodGet, "/dump", nil, &all); err != nil {
		w.t.Fatal(err)
	}
	return counted{len(all.Namespaces), len(all.Endpoints)}
}
