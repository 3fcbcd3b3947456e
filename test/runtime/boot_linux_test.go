package runtime

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestContainerdExe starts containerd.exe on emulated hosts, and asks it.
func TestContainerdExe(t *testing.T) {
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		t.Skip("takes two minutes: PORTHOLE_RUNTIME=long, or `make test-runtime`")
	}
	p := buildPrograms(t)
	for _, build := range []string{"17763", "20348", "26100"} {
		t.Run(build, func(t *testing.T) {
			w := p.newWorld(t, build)
			t.Run("version", w.testVersion)
			t.Run("status", w.testStatus)
			t.Run("images", w.testNoImages)
			t.Run("ctr.exe", w.testCtr)
			t.Run("pull", w.testPull)
			t.Run("pod", w.testPod)
			t.Run("remove image", w.testRemoveImage)
			t.Run("service", w.testService)
		})
	}
}

// containerd is the version that bundle.mk stamps.
const containerd = "v2.3.6"

func (w *world) testVersion(t *testing.T) {
	v, err := w.runtime.Version(call(t), &runtimeapi.VersionRequest{})
	if err != nil || v.RuntimeName != "containerd" || v.RuntimeVersion != containerd || v.RuntimeApiVersion != "v1" {
		t.Errorf("%+v, %v", v, err)
	}
}

// condition returns the status of a condition, and what it says.
func (w *world) condition(t *testing.T, name string) (bool, string) {
	t.Helper()
	r, err := w.runtime.Status(call(t), &runtimeapi.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == name {
			return c.Status, c.Reason + ": " + c.Message
		}
	}
	t.Fatalf("no condition %s in %+v", name, r.Status)
	return false, ""
}

// testStatus sees the network become ready when its configuration is written: containerd watches the folder.
func (w *world) testStatus(t *testing.T) {
	if ok, text := w.condition(t, runtimeapi.RuntimeReady); !ok {
		t.Errorf("the runtime is not ready: %s", text)
	}
	if ok, text := w.condition(t, runtimeapi.NetworkReady); ok ||
		!strings.Contains(text, "cni plugin not initialized") {
		t.Errorf("without a configuration the network is ready: %v, %s", ok, text)
	}
	conf := `{"cniVersion": "1.0.0", "name": "porthole", "type": "win-bridge"}`
	if err := os.WriteFile(filepath.Join(w.driveC(), "etc", "cni", "net.d", "10-porthole.conf"), []byte(conf),
		0o644); err != nil {
		t.Fatal(err)
	}
	wait.True(t, 30*time.Second, "the network is ready",
		func() bool { ok, _ := w.condition(t, runtimeapi.NetworkReady); return ok })
}

func (w *world) testNoImages(t *testing.T) {
	list, err := w.images.ListImages(call(t), &runtimeapi.ListImagesRequest{})
	if err != nil || len(list.Images) != 0 {
		t.Errorf("images: %v, %v", list, err)
	}
	info, err := w.images.ImageFsInfo(call(t), &runtimeapi.ImageFsInfoRequest{})
	if err != nil || len(info.ImageFilesystems) != 1 {
		t.Fatalf("%v, %v", info, err)
	}
	const want = `C:\ProgramData\containerd\root\io.containerd.snapshotter.v1.windows`
	if got := info.ImageFilesystems[0].FsId.Mountpoint; !strings.EqualFold(got, want) {
		t.Errorf("images lie in %s, want %s", got, want)
	}
}

// testCtr runs containerd's own client on the host. It says the versions of both.
func (w *world) testCtr(t *testing.T) {
	out := w.must("run", w.name, "--", `C:\Program Files\containerd\ctr.exe`, "version")
	if n := len(regexp.MustCompile(`Version: +`+regexp.QuoteMeta(containerd)).FindAllString(out, -1)); n != 2 {
		t.Errorf("ctr.exe version:\n%s", out)
	}
	plugins := w.must("run", w.name, "--", `C:\Program Files\containerd\ctr.exe`, "plugins", "ls")
	for _, want := range []string{`io\.containerd\.snapshotter\.v1 +windows +windows/amd64 +ok`,
		`io\.containerd\.differ\.v1 +windows +windows/amd64 +ok`, `io\.containerd\.grpc\.v1 +cri +- +ok`} {
		if !regexp.MustCompile(want).MatchString(plugins) {
			t.Errorf("ctr.exe plugins ls does not show %s:\n%s", want, plugins)
		}
	}
}
