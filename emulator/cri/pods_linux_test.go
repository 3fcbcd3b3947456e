package cri_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/testkit/wait"
)

const testImage = "porthole/testapp:1"

// TestWindowsPods tells the life of Windows pods through the CRI alone, as a kubelet on Windows would.
func TestWindowsPods(t *testing.T) {
	w, whole := newWorld(t, false), t
	t.Run("network is ready with a Windows CNI configuration only", w.testStatus)
	t.Run("image of the host's build", w.testImages)
	story := w.runPod("story", &runtimeapi.PortMapping{ContainerPort: 80, HostPort: 8080})
	for name, test := range map[string]func(*testing.T, pod){
		"program, environment, logs and exit code": w.testProgram,
		"mounts":                 w.testMounts,
		"refused paths":          w.testRefusedPaths,
		"absent program":         w.testAbsentProgram,
		"exec and graceful stop": w.testExec,
		"a program keeps the name that it is started by": w.testName,
		"memory limit": w.testMemoryLimit,
		"CPU limit":    w.testCPULimit,
		"a container survives a restart of the server": w.testRestart,
		"an image of another build without an index":   imageTests{w}.testMismatch,
		"images from an archive":                       imageTests{w}.testImport,
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			defer func() { w.t = whole }()
			test(t, story)
		})
	}

	t.Run("the network that a pod asked for is told", w.testAskedNetwork)
	t.Run("HostProcess", func(t *testing.T) { testHostProcess(t, w) })
	t.Run("users", func(t *testing.T) { testUsers(t, w) })
	t.Run("the domain of a credential spec", func(t *testing.T) { testDomain(t, w, story) })
	t.Run("execs beside the start", func(t *testing.T) { testExecBesideStart(t, w, story) })
	t.Run("one sandbox without statistics", func(t *testing.T) { testStatsFault(t, w, story) })
	t.Run("ends that are seen late", func(t *testing.T) { testLateEnds(t, w, story) })
	w.removePod(story)
	w.checkNothingLeft()
}

type pod struct {
	id     string
	config *runtimeapi.PodSandboxConfig
}

func (w *world) runPod(name string, ports ...*runtimeapi.PortMapping) pod {
	w.t.Helper()
	uid := name + "-uid"
	logs := `C:\var\log\pods\default_` + name + "_" + uid
	must(w.t, os.MkdirAll(filepath.Join(w.driveC(), "var/log/pods/default_"+name+"_"+uid), 0o755))
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Uid: uid, Namespace: "default"}, Hostname: name, LogDirectory: logs,
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"default.svc.cluster.local"}},
		PortMappings: ports,
		Windows:      &runtimeapi.WindowsPodSandboxConfig{SecurityContext: &runtimeapi.WindowsSandboxSecurityContext{}},
	}
	begin := time.Now()
	r, err := w.runtime.RunPodSandbox(w.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	must(w.t, err)
	w.t.Logf("RunPodSandbox took %v", time.Since(begin).Round(time.Millisecond))
	return pod{r.PodSandboxId, config}
}

func (w *world) removePod(p pod) {
	w.t.Helper()
	st, err := w.runtime.PodSandboxStatus(w.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	must(w.t, err)
	if ip := st.GetStatus().GetNetwork().GetIp(); ip != "10.244.9.3" {
		w.t.Errorf("pod has address %q", ip)
	}
	calls, err := os.ReadFile(filepath.Join(w.driveC(), "nullcni.log"))
	must(w.t, err)
	if own := guests(w); len(own) != 1 || !strings.Contains(string(calls), "ADD "+own[0]+" ") || !strings.Contains(string(calls), `"HostPort":8080`) {
		w.t.Errorf("the Windows plugin was called with:\n%s", calls)
	}
	_, err = w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
	must(w.t, err)
	_, err = w.runtime.RemovePodSandbox(w.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
	must(w.t, err)
}

// checkNothingLeft: no HCN namespace, folder, mount or cgroup of any pod.
func (w *world) checkNothingLeft() {
	w.t.Helper()
	wait.NoError(w.t, 20*time.Second, "the HCN namespaces of pods to be gone", func() error {
		if left := guests(w); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}

		// The runtime may delete a record only after some time: it does that for a pod whose network was never complete.
		records, err := os.ReadDir(filepath.Join(w.dir, "cni/pods"))
		if err == nil && len(records) > 0 {
			err = fmt.Errorf("the CNI shim remembers pods that are gone: %v", records)
		}
		return err
	})
	left, err := os.ReadDir(filepath.Join(w.dir, "cri/containers"))
	must(w.t, err)
	if len(left) > 0 {
		w.t.Errorf("folders are left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(w.t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, w.dir) && !strings.Contains(line, filepath.Join(w.dir, "prefix")+" ") {
			w.t.Errorf("mount is left: %s", line)
		}
	}

	cgroups, err := filepath.Glob("/sys/fs/cgroup/*/porthole/" + w.options.Host + "/*")
	must(w.t, err)
	for _, c := range cgroups {
		if info, err := os.Stat(c); err == nil && info.IsDir() {
			w.t.Errorf("cgroup is left: %s", c)
		}
	}
}

// create makes a container of the test image with C:\testapp.exe ARGS.
func (w *world) create(t *testing.T, p pod, name string, change func(*runtimeapi.ContainerConfig), args ...string) (string, error) {
	t.Helper()
	c := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: testImage}, Args: args,
		LogPath: name + `\0.log`,
		Windows: &runtimeapi.WindowsContainerConfig{Resources: &runtimeapi.WindowsContainerResources{}},
	}
	must(t, os.MkdirAll(w.linux(t, p.config.LogDirectory+`\`+name), 0o755))
	if change != nil {
		change(c)
	}
	r, err := w.runtime.CreateContainer(w.ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: p.id, Config: c, SandboxConfig: p.config})
	return r.GetContainerId(), err
}

func (w *world) linux(t *testing.T, path string) string {
	t.Helper()
	linux, err := wine.LinuxPath(w.driveC(), path)
	must(t, err)
	return linux
}

func (w *world) started(t *testing.T, p pod, name string, change func(*runtimeapi.ContainerConfig), args ...string) string {
	t.Helper()
	begin := time.Now()
	id, err := w.create(t, p, name, change, args...)
	must(t, err)
	created := time.Since(begin)
	_, err = w.runtime.StartContainer(w.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	must(t, err)
	t.Logf("%s: create %v, start %v", name, created.Round(time.Millisecond), (time.Since(begin) - created).Round(time.Millisecond))
	return id
}

func (w *world) status(t *testing.T, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	r, err := w.runtime.ContainerStatus(w.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	must(t, err)
	return r.Status
}

func (w *world) exited(t *testing.T, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	wait.NoError(w.t, 30*time.Second, "the container has ended", func() error {
		if s := w.status(t, id).State; s != runtimeapi.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("it is %v", s)
		}
		return nil
	})
	return w.status(t, id)
}

// log is what the container has printed, read as the kubelet does: by the C:\ path of its status.
func (w *world) log(t *testing.T, id string) string {
	t.Helper()
	path := w.status(t, id).LogPath
	if !strings.HasPrefix(path, `C:\var\log\pods\`) {
		t.Fatalf("log path %q", path)
	}
	data, err := os.ReadFile(w.linux(t, path))
	must(t, err)
	return string(data)
}

func (w *world) logShows(t *testing.T, id, text string) {
	t.Helper()
	wait.NoError(w.t, 30*time.Second, "the log shows "+text, func() error {
		if log := w.log(t, id); !strings.Contains(log, text) {
			return errors.New("it shows\n" + log)
		}
		return nil
	})
}

func (w *world) remove(t *testing.T, id string) {
	t.Helper()
	_, err := w.runtime.StopContainer(w.ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 2})
	must(t, err)
	_, err = w.runtime.RemoveContainer(w.ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	must(t, err)
}

func (w *world) testStatus(t *testing.T) {
	ready := func() error {
		r, err := w.runtime.Status(w.ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			return err
		}
		if h := r.RuntimeHandlers; len(h) != 2 || h[0].Name != "" || h[1].Name != "runhcs-wcow-process" || h[0].Features != nil {
			t.Errorf("runtime handlers: %v", h)
		}
		for _, c := range r.Status.Conditions {
			if c.Type == runtimeapi.NetworkReady && !c.Status {
				return errors.New(c.Message)
			}
		}
		return nil
	}
	if err := ready(); err == nil || !strings.Contains(err.Error(), `C:\etc\cni\net.d`) {
		t.Errorf("without configuration: %v", err)
	}
	w.useCNI()
	wait.NoError(w.t, 30*time.Second, "the network is ready", ready)
}

func (w *world) testImages(t *testing.T) {
	spec := &runtimeapi.ImageSpec{Image: testImage}
	begin := time.Now()
	pulled, err := w.images.PullImage(w.ctx, &runtimeapi.PullImageRequest{Image: spec})
	must(t, err)
	t.Logf("first pull took %v", time.Since(begin).Round(time.Millisecond))
	for _, name := range []string{testImage, "docker.io/porthole/testapp:1", pulled.ImageRef} {
		st, err := w.images.ImageStatus(w.ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		must(t, err)
		if st.GetImage().GetId() != pulled.ImageRef || len(st.GetImage().GetRepoDigests()) == 0 {
			t.Errorf("status of %s: %v", name, st.Image)
		}
	}
	_, err = w.images.PullImage(w.ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "porthole/testapp:ltsc2019"}})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), `failed to pull and unpack image "docker.io/porthole/testapp:ltsc2019": no match for platform in manifest`) {
		t.Errorf("pulling an image of another build: %v", err)
	}
	_, err = w.images.PullImage(w.ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "porthole/absent:1"}})
	if err == nil || !strings.Contains(err.Error(), "porthole/absent:1") {
		t.Errorf("pulling an absent image: %v", err)
	}
}

func (w *world) testProgram(t *testing.T, p pod) {
	id := w.started(t, p, "env", func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "COLOUR", Value: []byte("blue green")}, {Key: "Temp", Value: []byte(`C:\scratch`)}}
	}, "env")
	if s := w.exited(t, id); s.ExitCode != 0 {
		t.Errorf("exit code %d:\n%s", s.ExitCode, w.log(t, id))
	}
	for _, want := range []string{"COLOUR=blue green", `C:\scratch`, "PORTHOLE_IMAGE_BUILD=10.0.20348.3695", `PATH=`} {
		if !strings.Contains(w.log(t, id), want) {
			t.Errorf("environment lacks %s:\n%s", want, w.log(t, id))
		}
	}

	w.remove(t, id)
	id = w.started(t, p, "exit", nil, "exit", "7")
	if s := w.exited(t, id); s.ExitCode != 7 {
		t.Errorf("exit code %d", s.ExitCode)
	}
	w.remove(t, id)
	for code, text := range map[int32]string{300: "300", -1073741510: "3221225786", 256: "256", -1: "-1"} {
		id := w.started(t, p, "code", nil, "exit", text)
		if s := w.exited(t, id); s.ExitCode != code || s.Reason != "Error" {
			t.Errorf("exit code %d (%s), want %d", s.ExitCode, s.Reason, code)
		}
		w.remove(t, id)
	}

	id = w.started(t, p, "id", func(c *runtimeapi.ContainerConfig) { c.WorkingDir = `C:\work\here` }, "id")
	w.exited(t, id)
	for _, want := range []string{"hostname=story", `dir=C:\work\here`, "os=windows"} {
		if !strings.Contains(w.log(t, id), want) {
			t.Errorf("id lacks %s:\n%s", want, w.log(t, id))
		}
	}

	w.remove(t, id)
}

func (w *world) testMounts(t *testing.T, p pod) {
	must(t, os.MkdirAll(filepath.Join(w.driveC(), "data/volume"), 0o755))
	must(t, os.WriteFile(filepath.Join(w.driveC(), "data/volume/word.txt"), []byte("porthole\n"), 0o644))
	mounts := []*runtimeapi.Mount{
		{HostPath: `C:\data\volume`, ContainerPath: "C:/etc/foo", Readonly: true},
		{HostPath: `c:\Data\volume\word.txt`, ContainerPath: `C:\etc\single.txt`},
		{HostPath: `C:\data\volume\word.txt`, ContainerPath: `C:\at-root`, Readonly: true},
	}
	mounted := func(c *runtimeapi.ContainerConfig) { c.Mounts = mounts }
	id := w.started(t, p, "cat", mounted, "cat", `C:\etc\foo\word.txt`, `C:\etc\single.txt`, "/at-root")
	if s := w.exited(t, id); s.ExitCode != 0 || strings.Count(w.log(t, id), "porthole") != 3 || len(s.Mounts) != 3 || s.Mounts[0].HostPath != mounts[0].HostPath {
		t.Errorf("cat: code %d, mounts %v, log\n%s", s.ExitCode, s.Mounts, w.log(t, id))
	}
	w.remove(t, id)
	id = w.started(t, p, "write", mounted, "write", `C:\etc\foo\other.txt`, "no")
	if s := w.exited(t, id); s.ExitCode == 0 {
		t.Error("a read-only mount was written")
	}
	w.remove(t, id)

	id = w.started(t, p, "refuses", mounted, "serve")
	for _, file := range []string{`C:\etc\foo\other.txt`, `C:\etc\foo\word.txt`} { // a new file, and one that is there
		r := w.exec(t, id, "testapp.exe", "write", file, "no")
		if r.ExitCode == 0 || !strings.Contains(string(r.Stderr), "Access is denied.") {
			t.Errorf("writing %s: code %d, %q", file, r.ExitCode, r.Stderr)
		}
	}
	if r := w.exec(t, id, "cmd", "/c", "echo windows-volume-test", ">", `C:\etc\foo\other.txt`); strings.TrimSpace(string(r.Stderr)) != "Access is denied." || len(r.Stdout) > 0 {
		t.Errorf("cmd: code %d, %q, error output %q", r.ExitCode, r.Stdout, r.Stderr)
	}
	// The pods of this test have no adapter, and so no DNS servers: those are in emulator/wine TestPrefix/ipconfig.
	if r := w.exec(t, id, "ipconfig", "/all"); !strings.Contains(string(r.Stdout), "DNS Suffix Search List. . . . . . : default.svc.cluster.local\r\n") {
		t.Errorf("ipconfig /all: code %d, %q", r.ExitCode, r.Stdout)
	}
	w.remove(t, id)
}

func (w *world) testRefusedPaths(t *testing.T, p pod) {
	must(t, os.Symlink("/etc", filepath.Join(w.driveC(), "leak")))
	for _, m := range []*runtimeapi.Mount{
		{HostPath: `C:\data\..\..\etc`, ContainerPath: `C:\x`},
		{HostPath: `C:\leak`, ContainerPath: `C:\x`},
		{HostPath: `C:\leak\passwd`, ContainerPath: `C:\x`},
		{HostPath: `C:\data`, ContainerPath: `C:\x\..\..\y`},
		{HostPath: `D:\data`, ContainerPath: `C:\x`},
		{HostPath: `\\.\pipe\docker`, ContainerPath: `\\.\pipe\docker`},
		{HostPath: `C:\data`, ContainerPath: `C:\`},
	} {
		id, err := w.create(t, p, "refused", func(c *runtimeapi.ContainerConfig) { c.Mounts = []*runtimeapi.Mount{m} }, "id")
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("mount %v: container %q, error %v", m, id, err)
		}
	}
}

func (w *world) testAbsentProgram(t *testing.T, p pod) {
	id, err := w.create(t, p, "absent", func(c *runtimeapi.ContainerConfig) { c.Command = []string{`C:\nothing.exe`} })
	must(t, err)
	_, err = w.runtime.StartContainer(w.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), "cannot find the file") {
		t.Errorf("starting an absent program: %v", err)
	}
	if s := w.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_EXITED || s.Reason != "StartError" || s.ExitCode != 128 || !strings.Contains(s.Message, "cannot find the file") {
		t.Errorf("after it: %v", s)
	}
	w.remove(t, id)
}

func (w *world) exec(t *testing.T, id string, command ...string) *runtimeapi.ExecSyncResponse {
	t.Helper()
	begin := time.Now()
	r, err := w.runtime.ExecSync(w.ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: 20})
	must(t, err)
	t.Logf("exec %s took %v", command[0], time.Since(begin).Round(time.Millisecond))
	return r
}

func (w *world) testExec(t *testing.T, p pod) {
	id := w.started(t, p, "serve", nil, "serve")
	w.logShows(t, id, "serving HTTP")
	if r := w.exec(t, id, "cmd", "/c", "echo hello"); !strings.Contains(string(r.Stdout), "hello") || r.ExitCode != 0 {
		t.Errorf("cmd: %v %s %s", r.ExitCode, r.Stdout, r.Stderr)
	}
	if r := w.exec(t, id, "testapp.exe", "get", "http://127.0.0.1/"); !strings.Contains(string(r.Stdout), "hostname=story") {
		t.Errorf("get: %v %s %s", r.ExitCode, r.Stdout, r.Stderr)
	}
	if r := w.exec(t, id, "reg", "query", `HKLM\System\CurrentControlSet\Services\Tcpip\Parameters\Interfaces`, "/s"); !strings.Contains(string(r.Stdout), "default.svc.cluster.local") {
		t.Errorf("the adapter's settings: %v %s %s", r.ExitCode, r.Stdout, r.Stderr)
	}
	if r := w.exec(t, id, `C:\testapp.exe`, "exit", "3"); r.ExitCode != 3 {
		t.Errorf("exit code of exec: %d", r.ExitCode)
	}
	stats, err := w.runtime.ContainerStats(w.ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	must(t, err)
	if m := stats.GetStats().GetMemory().GetWorkingSetBytes().GetValue(); m == 0 || stats.GetStats().GetCpu().GetUsageCoreNanoSeconds().GetValue() == 0 {
		t.Errorf("stats: %v", stats)
	} else {
		t.Logf("working set %d MiB", m>>20)
	}

	podStats, err := w.runtime.PodSandboxStats(w.ctx, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: p.id})
	must(t, err)
	if podStats.GetStats().GetWindows().GetCpu() == nil || podStats.GetStats().GetLinux() != nil || len(podStats.GetStats().GetWindows().GetContainers()) == 0 {
		t.Errorf("pod stats: %v", podStats)
	}
	begin := time.Now()
	_, err = w.runtime.StopContainer(w.ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 10})
	must(t, err)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "stopped") {
		t.Errorf("exit code %d, log\n%s", s.ExitCode, w.log(t, id))
	}
	w.remove(t, id)
}

// testName: a program named from the root sees that name, has its arguments as they were given, is told to stop, and its
// exit code is the container's.
func (w *world) testName(t *testing.T, p pod) {
	named := func(c *runtimeapi.ContainerConfig) { c.Command = []string{"/testapp"} }
	id := w.started(t, p, "name", named, "id", "two words", `quote"and\`)
	if s, want := w.exited(t, id), `args=["/testapp" "id" "two words" "quote\"and\\"]`; s.ExitCode != 0 || !strings.Contains(w.log(t, id), want) {
		t.Errorf("exit code %d, log without %s:\n%s", s.ExitCode, want, w.log(t, id))
	}
	w.remove(t, id)
	id = w.started(t, p, "code", named, "exit", "9")
	if s := w.exited(t, id); s.ExitCode != 9 {
		t.Errorf("exit code %d", s.ExitCode)
	}
	w.remove(t, id)
	id = w.started(t, p, "told", named, "serve")
	w.logShows(t, id, "serving HTTP")
	_, err := w.runtime.StopContainer(w.ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 10})
	must(t, err)
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "stopped") {
		t.Errorf("exit code %d, log\n%s", s.ExitCode, w.log(t, id))
	}
	w.remove(t, id)
}

// testAskedNetwork: the kubelet compares it with the pod, and makes the sandbox again if it differs.
func (w *world) testAskedNetwork(t *testing.T) {
	for _, mode := range []runtimeapi.NamespaceMode{runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_NODE} { // without HostProcess
		config := &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "asks", Uid: "asks-" + mode.String(), Namespace: "default"}, Hostname: "asks",
			Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: mode}}},
			Windows: &runtimeapi.WindowsPodSandboxConfig{SecurityContext: &runtimeapi.WindowsSandboxSecurityContext{}},
		}
		r, err := w.runtime.RunPodSandbox(w.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
		must(t, err)
		st, err := w.runtime.PodSandboxStatus(w.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: r.PodSandboxId})
		must(t, err)
		if got := st.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork(); got != mode || st.GetStatus().GetNetwork().GetIp() == "" {
			t.Errorf("asked for %v, told %v with address %q", mode, got, st.GetStatus().GetNetwork().GetIp())
		}
		_, err = w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: r.PodSandboxId})
		must(t, err)
		_, err = w.runtime.RemovePodSandbox(w.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: r.PodSandboxId})
		must(t, err)
	}
}

func (w *world) testMemoryLimit(t *testing.T, p pod) {
	limited := func(c *runtimeapi.ContainerConfig) { c.Windows.Resources.MemoryLimitInBytes = 128 << 20 }
	id := w.started(t, p, "hog", limited, "hog", "512")
	if s := w.exited(t, id); s.Reason != "OOMKilled" || s.ExitCode != 137 || s.Resources.GetWindows().GetMemoryLimitInBytes() != 128<<20 {
		t.Errorf("reason %s, code %d, resources %v", s.Reason, s.ExitCode, s.Resources)
	}
	w.remove(t, id)
}

func (w *world) testCPULimit(t *testing.T, p pod) {
	half := func(c *runtimeapi.ContainerConfig) {
		c.Windows.Resources.CpuMaximum = int64(10000 / w.options.CPUs / 2)
	}
	id := w.started(t, p, "burn", half, "burn", "3")
	w.exited(t, id)
	_, after, ok := strings.Cut(w.log(t, id), "average ")
	var got float64
	// Other tests on the machine may leave it less than its limit: TestLinuxResources has the exact quota.
	if _, err := fmt.Sscanf(after, "%f", &got); err != nil || !ok || got < 0.25 || got > 0.6 {
		t.Errorf("burned %.2f CPUs of 0.5: %v\n%s", got, err, w.log(t, id))
	}
	w.remove(t, id)
}

func (w *world) testRestart(t *testing.T, p pod) {
	id := w.started(t, p, "keep", nil, "serve")
	w.logShows(t, id, "serving HTTP")
	w.stop()
	w.serve()
	if s := w.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_RUNNING || s.Resources.GetWindows() == nil {
		t.Errorf("after the restart: %v", s)
	}
	if r := w.exec(t, id, "cmd", "/c", "echo", "still"); !strings.Contains(string(r.Stdout), "still") {
		t.Errorf("exec after the restart: %v", r)
	}
	w.remove(t, id)
}
