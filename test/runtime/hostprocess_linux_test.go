package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

const system = `NT AUTHORITY\SYSTEM`

// TestHostProcess runs HostProcess containers as runhcs makes them: programs of the host in a job.
func TestHostProcess(t *testing.T) {
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		t.Skip("takes a minute: PORTHOLE_RUNTIME=long, or `make test-runtime`")
	}
	p := buildPrograms(t)
	for _, build := range []string{"17763", "20348", "26100"} {
		t.Run(build, func(t *testing.T) {
			w := p.newWorld(t, build)
			w.useRegistry()
			if _, err := w.images.PullImage(call(t),
				&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: testImage}}); err != nil {
				t.Fatal(err)
			}
			w.usePause(t)

			h := &hostProcess{world: w, build: build, pod: w.runHostProcessPod(t, "host")}
			t.Run("program", h.testProgram)
			t.Run("users", h.testUsers)
			t.Run("mounts", h.testMounts)
			t.Run("life", h.testLife)
			t.Run("inherited user", h.testInheritedUser)
			t.Run("kill of the shim", h.testShimKilled)
			if build == "17763" {
				t.Run("no bind filter", h.testWithoutBindFilter)
			}
			t.Run("end", h.testEnd)
		})
	}
}

// hostProcess is a HostProcess pod.
type hostProcess struct {
	*world
	build string
	pod   pod
	made  int // containers
}

func (w *world) runHostProcessPod(t *testing.T, name string) pod {
	t.Helper()
	w.write("var/log/pods/"+name+"/.keep", "")
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: "default"},
		LogDirectory: `C:\var\log\pods\` + name,
		Windows: &runtimeapi.WindowsPodSandboxConfig{
			SecurityContext: &runtimeapi.WindowsSandboxSecurityContext{HostProcess: true, RunAsUsername: system}},
	}
	r, err := w.runtime.RunPodSandbox(call(t), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatalf("RunPodSandbox: %v", err)
	}
	return pod{r.PodSandboxId, config}
}

// create makes a container of the pod. user "" is the system.
func (h *hostProcess) create(t *testing.T, config *runtimeapi.ContainerConfig, user string) (id string, err error) {
	t.Helper()
	if user == "" {
		user = system
	}
	h.made++
	name := fmt.Sprintf("%s-%d", config.Metadata.Name, h.made) // each has a log of its own
	config.Metadata.Name = name
	config.Image, config.LogPath = &runtimeapi.ImageSpec{Image: testImage}, name+".log"
	config.Windows = &runtimeapi.WindowsContainerConfig{
		SecurityContext: &runtimeapi.WindowsContainerSecurityContext{HostProcess: true, RunAsUsername: user}}
	c, err := h.runtime.CreateContainer(call(t),
		&runtimeapi.CreateContainerRequest{PodSandboxId: h.pod.id, SandboxConfig: h.pod.config, Config: config})
	if err != nil {
		return "", err
	}
	_, err = h.runtime.StartContainer(call(t), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId})
	return c.ContainerId, err
}

// run runs a command to its end, and returns what it printed and its exit code.
func (h *hostProcess) run(t *testing.T, config *runtimeapi.ContainerConfig, user string) (log string, code int32) {
	t.Helper()
	id, err := h.create(t, config, user)
	if err != nil {
		t.Fatalf("%s: %v", config.Metadata.Name, err)
	}
	var status *runtimeapi.ContainerStatus
	wait.True(t, 30*time.Second, config.Metadata.Name+" ends", func() bool {
		r, err := h.runtime.ContainerStatus(call(t), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err == nil {
			status = r.Status
		}
		return err == nil && r.Status.State == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	if _, err := h.runtime.RemoveContainer(call(t), &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		t.Error(err)
	}
	var text strings.Builder
	for line := range strings.Lines(h.podLog(h.pod, config.Metadata.Name)) { // TIME STREAM TAG TEXT
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			text.WriteString(fields[3])
		}
	}
	return text.String(), status.ExitCode
}

func containerOf(name string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name}, Command: command}
}

// testProgram runs a program of the host, and one of the image, which lies at C:\hpc in each container where Windows
// has the bind filter, and else below it.
func (h *hostProcess) testProgram(t *testing.T) {
	log, code := h.run(t, containerOf("program", "cmd", "/c",
		`ver&& set&& if exist %CONTAINER_SANDBOX_MOUNT_POINT%\testapp.exe echo image seen&& exit 7`), "")
	for _, want := range []string{"Microsoft Windows 10.0." + h.build, `CONTAINER_SANDBOX_MOUNT_POINT=C:\hpc\`,
		"image seen", "PORTHOLE_IMAGE=porthole/testapp:1", `USERPROFILE=C:\Windows\system32\config\systemprofile`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
	if code != 7 {
		t.Errorf("exit code %d", code)
	}
	if log, code := h.run(t, containerOf("own", `%CONTAINER_SANDBOX_MOUNT_POINT%\testapp.exe`, "none"),
		""); code != 2 || !strings.Contains(log, `testapp: no command "none"`) {
		t.Errorf("the image's program: %d\n%s", code, log)
	}
	_, err := os.Stat(filepath.Join(h.driveC(), "hpc", "testapp.exe"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("other programs of the host see the image: %v", err)
	}
}

// testUsers starts HostProcess containers with each runAsUserName that Windows allows there, and asks whoami in them.
func (h *hostProcess) testUsers(t *testing.T) {
	for user, want := range map[string]string{
		system: `nt authority\system`, `NT AUTHORITY\system`: `nt authority\system`,
		`NT AUTHORITY\LocalService`:   `nt authority\local service`,
		`NT AUTHORITY\Local Service`:  `nt authority\local service`,
		`NT AUTHORITY\NetworkService`: `nt authority\network service`,
	} {
		if log, code := h.run(t, containerOf("whoami", "whoami"), user); code != 0 || strings.TrimSpace(log) != want {
			t.Errorf("as %s: %d %q, want %q", user, code, log, want)
		}
	}
	h.must("run", h.name, "--", "net", "localgroup", "operators", "/add")
	for _, group := range []string{"operators", "Administrators"} {
		log, code := h.run(t, containerOf("group", "whoami"), group) // a user of its own, which ends with the container
		if code != 0 || !regexp.MustCompile(`^[^\\]+\\[0-9a-f]{20}$`).MatchString(strings.TrimSpace(log)) {
			t.Errorf("as a member of %s: %d %q", group, code, log)
		}
	}
	const want = "failed to logon user: The user name or password is incorrect."
	for _, nobody := range []string{"nobody", `NT AUTHORITY\nobody`, `elsewhere\Administrator`} {
		if _, err := h.create(t, containerOf("nobody", "whoami"), nobody); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("as %s: %v, want %s", nobody, err, want)
		}
	}
}

// testMounts mounts a folder of the host into a container, at the path that is asked for, and at that path below the
// image's files.
func (h *hostProcess) testMounts(t *testing.T) {
	h.write("data/file.txt", "of the host")
	h.write("data/only.txt", "a file")
	config := containerOf("mounts", "cmd", "/c",
		`type C:\data\only.txt&& type C:\mnt\data\file.txt&& type C:\hpc\mnt\data\only.txt&& echo new> C:\mnt\data\new.txt`)
	config.Mounts = []*runtimeapi.Mount{{HostPath: `C:\data`, ContainerPath: `C:\mnt\data`}}
	if log, code := h.run(t, config, ""); code != 0 || !strings.Contains(log, "of the host") ||
		strings.Count(log, "a file") != 2 {
		t.Errorf("%d %s", code, log)
	}
	if data, err := os.ReadFile(filepath.Join(h.driveC(), "data", "new.txt")); err != nil ||
		strings.TrimSpace(string(data)) != "new" {
		t.Errorf("what the container wrote: %q, %v", data, err)
	}
}

// testWithoutBindFilter: Windows Server 2019 has no bind filter before the update of July 2022 (KEP-1981). There the
// image lies in a folder that has the container's name, which the whole host sees, and mounts are below it.
func (h *hostProcess) testWithoutBindFilter(t *testing.T) {
	dll := filepath.Join(h.driveC(), "windows", "system32", "bindfltapi.dll")
	if err := os.Rename(dll, dll+".away"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Rename(dll+".away", dll); err != nil {
			t.Error(err)
		}
	}()
	pod := h.pod
	h.pod = h.runHostProcessPod(t, "old") // the pod's shim has looked for the filter at its start
	defer func() {
		if err := h.removePod(h.pod); err != nil {
			t.Error(err)
		}
		h.pod = pod
	}()

	config := containerOf("old", "cmd", "/c",
		`set&& type %CONTAINER_SANDBOX_MOUNT_POINT%\mnt\data\only.txt&& if exist %CONTAINER_SANDBOX_MOUNT_POINT%\testapp.exe echo image seen`)
	config.Mounts = []*runtimeapi.Mount{{HostPath: `C:\data`, ContainerPath: `C:\mnt\data`}}
	log, code := h.run(t, config, "")
	if code != 0 || !regexp.MustCompile(`CONTAINER_SANDBOX_MOUNT_POINT=C:\\hpc\\[0-9a-f]{64}\\`).MatchString(log) ||
		!strings.Contains(log, "a file") || !strings.Contains(log, "image seen") {
		t.Errorf("%d %s", code, log)
	}
	if left, err := filepath.Glob(filepath.Join(h.driveC(), "hpc", "*")); err != nil || len(left) > 0 {
		t.Errorf("left at C:\\hpc: %v, %v", left, err)
	}
}

// testLife sees a program that goes on: exec, statistics, the stop of all programs of the job.
func (h *hostProcess) testLife(t *testing.T) {
	config := containerOf("life", "cmd", "/c",
		`%CONTAINER_SANDBOX_MOUNT_POINT%\testapp.exe serve --http 127.0.0.1:8098`)
	id, err := h.create(t, config, "")
	if err != nil {
		t.Fatal(err)
	}
	wait.True(t, 30*time.Second, "the program logs",
		func() bool { return strings.Contains(h.podLog(h.pod, config.Metadata.Name), "serving HTTP") })
	r, err := h.runtime.ExecSync(call(t),
		&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", "echo hello&& exit 37"}, Timeout: 20})
	if err != nil || r.ExitCode != 37 || strings.TrimSpace(string(r.Stdout)) != "hello" {
		t.Errorf("exec: %+v, %v", r, err)
	}
	s, err := h.runtime.ContainerStats(call(t), &runtimeapi.ContainerStatsRequest{ContainerId: id})
	if err != nil || s.Stats.GetCpu().GetUsageCoreNanoSeconds().GetValue() == 0 ||
		s.Stats.GetMemory().GetWorkingSetBytes().GetValue() == 0 {
		t.Errorf("statistics: %+v, %v", s, err)
	}

	if _, err := h.runtime.StopContainer(call(t),
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 10}); err != nil {
		t.Errorf("StopContainer: %v", err)
	}
	if _, err := h.runtime.RemoveContainer(call(t), &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		t.Errorf("RemoveContainer: %v", err)
	}
	wait.True(t, 30*time.Second, "no program of the container runs",
		func() bool { return len(h.programs(t, "testapp.exe")) == 0 })
}

// testInheritedUser: with runhcs' annotation a container has the user of the shim, which is containerd's, whatever its
// runAsUserName. An administrator allows annotations of pods and containers in containerd's configuration.
func (h *hostProcess) testInheritedUser(t *testing.T) {
	const allowed = `version = 4

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runhcs-wcow-process]
  runtime_type = 'io.containerd.runhcs.v1'
  container_annotations = ['microsoft.com/*']
`
	h.write("Program Files/containerd/conf.d/annotations.toml", allowed)
	h.restartContainerd()
	config := containerOf("inherited", "whoami")
	config.Annotations = map[string]string{"microsoft.com/hostprocess-inherit-user": "true"}
	want := h.must("run", h.name, "--", "whoami") // containerd.exe is no service of this host
	if log, code := h.run(t, config, `NT AUTHORITY\LocalService`); code != 0 ||
		strings.TrimSpace(log) != strings.TrimSpace(want) {
		t.Errorf("with the annotation: %d %q, want %q", code, log, want)
	}
	if log, code := h.run(t, containerOf("own", "whoami"), `NT AUTHORITY\LocalService`); code != 0 ||
		strings.TrimSpace(log) != `nt authority\local service` {
		t.Errorf("without it: %d %q", code, log)
	}
}

// testShimKilled: the programs of a HostProcess container end with its shim, whose job they are in, and the pod can be
// removed.
func (h *hostProcess) testShimKilled(t *testing.T) {
	before := h.pod
	defer func() { h.pod = before }()
	if err := h.removePod(h.pod); err != nil { // its shim would be killed too
		t.Fatal(err)
	}
	h.pod = h.runHostProcessPod(t, "killed")
	config := containerOf("killed", "cmd", "/c",
		`%CONTAINER_SANDBOX_MOUNT_POINT%\testapp.exe serve --http 127.0.0.1:8098`)
	if _, err := h.create(t, config, ""); err != nil {
		t.Fatal(err)
	}
	wait.True(t, 30*time.Second, "the program logs",
		func() bool { return strings.Contains(h.podLog(h.pod, config.Metadata.Name), "serving HTTP") })

	w := containers{h.world}
	w.kill(t, shimProgram)
	wait.True(t, 30*time.Second, "no program of the container runs",
		func() bool { return len(h.programs(t, "testapp.exe")) == 0 })
	w.endPod(t, h.pod)
	before = h.runHostProcessPod(t, "again")
}

// programs are the processes of this machine that run a program of that name on the host.
func (h *hostProcess) programs(t *testing.T, name string) (found []string) {
	t.Helper()
	pids, err := platform.NetnsPids(platform.NetnsPath("porthole-" + h.name))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		if strings.Contains(string(line), name) {
			found = append(found, string(line))
		}
	}
	return found
}

// testEnd removes the pod, and finds no mount and no user of its containers.
func (h *hostProcess) testEnd(t *testing.T) {
	if err := h.removePod(h.pod); err != nil {
		t.Error(err)
	}
	wait.True(t, 30*time.Second, "no folder of a silo is left", func() bool {
		left, err := filepath.Glob(filepath.Join(h.dir, "hosts", h.name, "s[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"))
		return err == nil && len(left) == 0
	})
	h.testNothingLeft(t)
}
