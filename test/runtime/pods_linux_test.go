package runtime

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	registryAddress = "127.0.0.1:5000"
	testImage       = "porthole/testapp:1"
	sandboxImage    = "registry.k8s.io/pause:3.10.2" // containerd's default
	hcnNetwork      = `{"Name":"porthole","Type":"L2Bridge","Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.244.8.0/24",` +
		`"Routes":[{"NextHop":"10.244.8.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2,"Minor":0}}`
	// host-local's own folder, /var/lib/cni, would be this machine's under Wine.
	winBridge = `{"cniVersion":"1.0.0","name":"porthole","type":"win-bridge","apiVersion":2,"capabilities":{"portMappings":true,"dns":true},` +
		`"ipam":{"type":"host-local","dataDir":"C:\\\\var\\\\lib\\\\cni","ranges":[[{"subnet":"10.244.8.0/24","rangeStart":"10.244.8.3"}]]}}`
)

// registryLogin is the file below the folder of a world with the login of who may push images.
const registryLogin = "registry-login"

// useRegistry serves our images in the host's network namespace, and tells containerd so.
func (w *world) useRegistry() {
	w.t.Helper()
	registry, images := filepath.Join(filepath.Dir(w.porthole), "bundle", "registry"), filepath.Join(w.dir, "images")
	command(w.t, nil, registry, "build", "--out", images)
	login := filepath.Join(w.dir, registryLogin)
	if err := os.WriteFile(login, []byte("suite:"+rand.Text()), 0o600); err != nil {
		w.t.Fatal(err)
	}

	cmd := exec.Command(registry, "serve", "--listen", registryAddress, "--dir", images, "--push-login", login)
	netns := platform.NetnsPath("porthole-" + w.name)
	if err := platform.StartInNetns(netns, cmd); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	wait.NoError(w.t, 30*time.Second, "the registry listens", func() error {
		return platform.InNetns(netns, func() error {
			c, err := net.Dial("tcp", registryAddress)
			if err != nil {
				return err
			}
			return c.Close()
		})
	})
	hosts := "server = \"http://" + registryAddress + "\"\n\n[host.\"http://" + registryAddress +
		"\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
	w.write("etc/containerd/certs.d/_default/hosts.toml", hosts)
}

// write makes a file on the host's C:.
func (w *world) write(path, text string) {
	w.t.Helper()
	if err := testkit.WriteGuest(w.driveC(), path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// testPull pulls an image through containerd's windows snapshotter and differ, finds its file in the layer, and
// removes it.
func (w *world) testPull(t *testing.T) {
	w.useRegistry()
	begin := time.Now()
	pulled, err := w.images.PullImage(call(t),
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: testImage}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pulled in %v", time.Since(begin).Round(time.Millisecond))
	status, err := w.images.ImageStatus(call(t),
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: testImage}})
	if err != nil || status.Image == nil || status.Image.Id != pulled.ImageRef || status.Image.Size == 0 {
		t.Fatalf("%+v, %v", status, err)
	}

	want, err := os.ReadFile(filepath.Join(filepath.Dir(w.porthole), "bundle", "images", "windows", "testapp.exe"))
	if err != nil {
		t.Fatal(err)
	}
	found := w.layerFiles("testapp.exe")
	if len(found) != 1 {
		t.Fatalf("the layer's program is at %v", found)
	}
	if got, err := os.ReadFile(found[0]); err != nil || string(got) != string(want) {
		t.Errorf("%s has %d bytes, want %d; %v", found[0], len(got), len(want), err)
	}
}

// layerFiles are the files of that name in the layers that containerd keeps.
func (w *world) layerFiles(name string) []string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.driveC(),
		"ProgramData/containerd/root/io.containerd.snapshotter.v1.windows/snapshots/*/Files", name))
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *world) testRemoveImage(t *testing.T) {
	if _, err := w.images.RemoveImage(call(t),
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: testImage}}); err != nil {
		t.Fatal(err)
	}
	wait.True(t, 30*time.Second, "the layer is removed", func() bool { return len(w.layerFiles("testapp.exe")) == 0 })
}

// useNetwork makes the HNS network of the pods, and installs upstream's CNI plugins, which containerd.exe runs itself.
func (w *world) useNetwork() {
	w.t.Helper()
	bin := filepath.Join(filepath.Dir(w.porthole), "bundle", "cni-windows")
	for _, name := range []string{"win-bridge.exe", "host-local.exe"} {
		data, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			w.t.Fatalf("%v (run `make bundle-tests`)", err)
		}
		if err := testkit.WriteGuest(w.driveC(), "opt/cni/bin/"+name, data, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	program := filepath.Join(w.dir, "hcnnetwork.exe")
	command(w.t, forWindows, "go", "build", "-o", program, "./testdata/hcnnetwork")
	w.must("run", w.name, "--", program, hcnNetwork)
	w.write("etc/cni/net.d/10-porthole.conf", winBridge)
	wait.True(w.t, 30*time.Second, "the network is ready",
		func() bool { ok, _ := w.condition(w.t, runtimeapi.NetworkReady); return ok })
}

// usePause gives containerd the image of its sandboxes, as on a node without a way to registry.k8s.io: by a tag.
func (w *world) usePause(t *testing.T) {
	t.Helper()
	const image = "docker.io/porthole/pause:1"
	if _, err := w.images.PullImage(call(t),
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}}); err != nil {
		t.Fatal(err)
	}
	w.must("run", w.name, "--", `C:\Program Files\containerd\ctr.exe`, "--namespace", "k8s.io", "images", "tag", image,
		sandboxImage)
	wait.True(t, 30*time.Second, "CRI knows the sandbox image", func() bool {
		r, err := w.images.ImageStatus(call(t),
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: sandboxImage}})
		return err == nil && r.Image != nil
	})
}

// pod is a sandbox that runs.
type pod struct {
	id     string
	config *runtimeapi.PodSandboxConfig
}

func (w *world) runPod(t *testing.T, name string) pod {
	t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: "default"}, Hostname: name,
		LogDirectory: `C:\var\log\pods\` + name, DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}},
		Windows: &runtimeapi.WindowsPodSandboxConfig{},
	}
	begin := time.Now()
	r, err := w.runtime.RunPodSandbox(call(t), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatalf("RunPodSandbox: %v", err)
	}
	t.Logf("sandbox in %v", time.Since(begin).Round(time.Millisecond))
	return pod{r.PodSandboxId, config}
}

// start creates and starts a container of the test image.
func (w *world) start(t *testing.T, p pod, name string, args ...string) (id string) {
	t.Helper()
	c, err := w.runtime.CreateContainer(call(t),
		&runtimeapi.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config,
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: testImage},
				LogPath: name + ".log", Args: args,
				Windows: &runtimeapi.WindowsContainerConfig{},
			}})
	if err != nil {
		t.Fatalf("CreateContainer: %v", err)
	}
	begin := time.Now()
	if _, err := w.runtime.StartContainer(call(t),
		&runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		t.Fatalf("StartContainer: %v", err)
	}
	t.Logf("%s started in %v", name, time.Since(begin).Round(time.Millisecond))
	return c.ContainerId
}

func (w *world) podLog(p pod, name string) string {
	// none yet is an empty one
	data, _ := os.ReadFile(filepath.Join(w.driveC(), "var", "log", "pods", p.config.Metadata.Name, name+".log"))
	return string(data)
}

// testPod lives the life of a pod: sandbox with a network, a program that serves, its log, an exec, its end.
func (w *world) testPod(t *testing.T) {
	w.useNetwork()
	w.usePause(t)
	w.write("var/log/pods/server/.keep", "")
	p := w.runPod(t, "server")
	status, err := w.runtime.PodSandboxStatus(call(t), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil || status.Status.State != runtimeapi.PodSandboxState_SANDBOX_READY ||
		status.Status.GetNetwork().GetIp() != "10.244.8.3" {
		t.Errorf("%+v, %v", status, err)
	}
	id := w.start(t, p, "serve", "serve")
	wait.True(t, 30*time.Second, "the program logs",
		func() bool { return strings.Contains(w.podLog(p, "serve"), "serving HTTP") })

	r, err := w.runtime.ExecSync(call(t),
		&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", "echo hello&& exit 37"}, Timeout: 20})
	if err != nil || r.ExitCode != 37 || strings.TrimSpace(string(r.Stdout)) != "hello" {
		t.Errorf("exec: %+v, %v", r, err)
	}
	if _, err := w.runtime.StopContainer(call(t),
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 10}); err != nil {
		t.Errorf("StopContainer: %v", err)
	}
	s, err := w.runtime.ContainerStatus(call(t), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil || s.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("after the stop: %+v, %v", s, err)
	}
	if err := w.removePod(p); err != nil {
		t.Error(err)
	}
	w.testNothingLeft(t)
}

// testNothingLeft finds no namespace and no endpoint of the pod in HNS, and no mount of its layers.
func (w *world) testNothingLeft(t *testing.T) {
	t.Helper()
	var dump struct {
		Namespaces []struct{ ID, Type string }
		Endpoints  []any
	}
	if err := json.Unmarshal([]byte(w.must("hns", w.name, "dump", "-o", "json")), &dump); err != nil {
		t.Fatal(err)
	}
	for _, n := range dump.Namespaces {
		if n.Type != "HostDefault" { // the host's own
			t.Errorf("HNS still has namespace %v", n)
		}
	}
	if len(dump.Endpoints) != 0 {
		t.Errorf("HNS still has endpoints %v", dump.Endpoints)
	}
	mounts, err := platform.MountPointsBelow(filepath.Join(w.dir, "hosts", w.name, "hcs"))
	if err != nil || len(mounts) != 0 {
		t.Errorf("still mounted: %v, %v", mounts, err)
	}
}

func (w *world) removePod(p pod) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := w.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return fmt.Errorf("StopPodSandbox: %w", err)
	}
	if _, err := w.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return fmt.Errorf("RemovePodSandbox: %w", err)
	}
	return nil
}
