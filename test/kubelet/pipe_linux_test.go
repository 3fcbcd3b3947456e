package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// windowsHost is enough of an emulated host for kubelet.exe: Wine in a network namespace, and a fake CRI behind the
// pipe on which containerd listens.
type windowsHost struct {
	t       *testing.T
	tools   wine.Tools
	prefix  wine.Prefix
	space   *netspace.Space
	runtime *runtimetest.Fake
	port    int      // of the fake
	told    sync.Map // by pod: what its container was first given as HOST_IP
	servers sync.Map // by pod: the DNS servers that its sandbox was first given, as text
	// resolver is resolvConf of the kubelet's configuration. Empty: pods get no settings of the node.
	resolver string
	log      *os.File
}

// start runs a program, and kills it when the test ends.
func (h *windowsHost) start(cmd *osexec.Cmd) (kill func()) {
	h.t.Helper()
	must(h.t, platform.StartInNetns(h.space.Path, cmd))
	kill = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
	h.t.Cleanup(kill)
	return kill
}

func (h *windowsHost) program(exe string, args ...string) *osexec.Cmd {
	cmd := h.tools.Command(context.Background(), h.prefix, exe, args...)
	cmd.Stdout, cmd.Stderr = h.log, h.log
	return cmd
}

func (h *windowsHost) startPipe() (kill func()) {
	return h.start(h.program(wine.PipeProgram, host.RuntimePipe, strconv.Itoa(h.port)))
}

// path is the Linux path of what is below C:.
func (h *windowsHost) path(names ...string) string {
	return filepath.Join(append([]string{h.prefix.DriveC()}, names...)...)
}

func newWindowsHost(t *testing.T, bin string) *windowsHost {
	tools, err := wine.Find()
	must(t, err)
	build, err := wine.LookupBuild(20348)
	must(t, err)
	h := &windowsHost{t: t, tools: tools, space: netspace.New(t, "pipe"),
		runtime: runtimetest.New("testkit.local/testapp:1")}
	dlls, dir := filepath.Join(bin, "windows", "dll"), t.TempDir()
	// outlives the test, as making it takes ten seconds
	template := wine.TemplateDir(filepath.Join(bin, "proxy-lab"), build.Number)
	must(t, tools.EnsureTemplate(context.Background(), wine.TemplateOptions{Dir: template, Build: build, DLLDir: dlls}))
	mount := wine.PrefixMount(template, dir)
	must(t, mount.Ensure())
	t.Cleanup(func() { must(t, mount.Unmount()) })
	h.prefix = wine.Prefix{Dir: mount.Target}
	if why := h.prefix.PipeProblem(); why != "" {
		t.Fatal(why)
	}

	h.space.Connect("eth0", netspace.New(t, "peer"), "peer")
	h.space.Address("eth0", "10.99.7.21/24")
	h.log, err = os.Create(filepath.Join(dir, "programs.log"))
	must(t, err)
	t.Cleanup(func() {
		if text, err := os.ReadFile(h.log.Name()); err == nil && t.Failed() {
			t.Logf("programs of the host:\n%s", text)
		}
	})

	h.start(tools.ServerCommand(h.prefix))
	t.Cleanup(func() { must(t, tools.StopServer(context.Background(), h.prefix)) })

	var listener net.Listener
	h.space.Do(func() error { listener, err = net.Listen("tcp", "127.0.0.1:0"); return err })
	h.port = listener.Addr().(*net.TCPAddr).Port
	server := grpc.NewServer(grpc.UnaryInterceptor(h.see))
	runtimetest.Register(server, h.runtime)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	h.install(bin)
	return h
}

// install gives the host its kubelet.exe.
func (h *windowsHost) install(bin string) {
	exe, err := os.ReadFile(filepath.Join(bin, "windows", "kubelet.exe"))
	must(h.t, err)
	must(h.t, os.MkdirAll(h.path("manifests"), 0o755))
	must(h.t, os.WriteFile(h.path("kubelet.exe"), exe, 0o755))
	must(h.t, testkit.OwnGuest(h.path(""), "manifests"))
}

// startKubelet starts kubelet.exe with a runtime endpoint and without an API server: it runs the pods in C:\manifests.
func (h *windowsHost) startKubelet(endpoint string) (kill func()) {
	h.configure(endpoint)
	kill = h.start(h.program(`C:\kubelet.exe`, `--config=C:\kubelet.json`, `--root-dir=C:\kubelet`,
		"--hostname-override=win", "--node-ip=10.99.7.21"))
	h.t.Cleanup(func() { // before the kubelet is killed
		if h.t.Failed() {
			stacks, err := h.ask("/debug/pprof/goroutine?debug=2")
			h.t.Logf("what the kubelet waits for: %v\n%s", err, stacks)
		}
	})
	return kill
}

// configure writes C:\kubelet.json.
func (h *windowsHost) configure(endpoint string) {
	h.t.Helper()
	must(h.t, testkit.WriteJSON(h.path("kubelet.json"), map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": endpoint,
		"staticPodPath":            `C:\manifests`, "podLogsDir": `C:\logs`, "resolvConf": h.resolver,
		"evictionHard": map[string]string{},
		"authentication": map[string]any{"anonymous": map[string]bool{"enabled": true},
			"webhook": map[string]bool{"enabled": false}},
		"authorization": map[string]string{"mode": "AlwaysAllow"},
	}))
}

// runs adds a static pod and waits until its container runs.
func (h *windowsHost) runs(name string) {
	h.t.Helper()
	before := h.runtime.Count("StartContainer")
	p := newPod(name, "sleep")
	p.APIVersion, p.Kind, p.Spec.NodeSelector = "v1", "Pod", nil
	must(h.t, testkit.WriteJSON(h.path("manifests", name+".json"), p))
	wait.NoError(h.t, 60*time.Second, "pod "+name, func() error {
		if h.runtime.Count("StartContainer") == before {
			return fmt.Errorf("the runtime was asked for:\n%s", h.runtime.Calls())
		}
		return nil
	})
}

// TestDefaultPipe: kubelet.exe reaches its runtime at the default endpoint of Windows, in each of its spellings, and
// again after what serves the pipe was killed and started again.
// Rows 1.09, 1.83.
func TestDefaultPipe(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	h := newWindowsHost(t, bin)
	killPipe := h.startPipe()

	var killKubelet func()
	for i, endpoint := range []string{
		"npipe:////./pipe/containerd-containerd",
		"npipe://./pipe/containerd-containerd",
		`npipe:\\.\pipe\containerd-containerd`,
		"npipe:///pipe/containerd-containerd",
	} {
		if killKubelet != nil {
			killKubelet()
		}
		killKubelet = h.startKubelet(endpoint)
		begin := time.Now()
		h.runs(fmt.Sprint("pod-", i))
		t.Logf("%s: a container runs after %v", endpoint, time.Since(begin).Round(time.Millisecond))
	}

	h.listsSandboxes()
	killPipe()
	h.startPipe()
	h.runs("after")
}

// listsSandboxes asks for the runtime's sandboxes as the sweep of a node's CNI networks does, which connects for each
// pass.
func (h *windowsHost) listsSandboxes() {
	h.t.Helper()
	build := osexec.Command("go", "build", "-o", h.path("sandboxes.exe"), "./testdata/sandboxes")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\sandboxes.exe`, "npipe:////./pipe/containerd-containerd")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(h.t, platform.StartInNetns(h.space.Path, cmd))
	if err := cmd.Wait(); err != nil || strings.Count(out.String(), "4 [") != 3 {
		h.t.Errorf("sandboxes that the runtime is said to have: %v: %q, want 4, three times", err, out.String())
	}
}
