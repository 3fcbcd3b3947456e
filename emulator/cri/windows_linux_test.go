package cri_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/internal/testkit/wait"
)

// sandboxAs makes a sandbox of which its Windows settings are given, and removes it when the test ends.
func sandboxAs(t *testing.T, w *world, name string, sec *runtimeapi.WindowsSandboxSecurityContext) (pod, error) {
	t.Helper()
	logs := "var/log/pods/default_" + name + "_" + name
	must(t, os.MkdirAll(filepath.Join(w.driveC(), logs), 0o755))
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: "default"}, LogDirectory: `C:\` + strings.ReplaceAll(logs, "/", `\`),
		Windows: &runtimeapi.WindowsPodSandboxConfig{SecurityContext: sec},
	}
	r, err := w.runtime.RunPodSandbox(w.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err == nil {
		t.Cleanup(func() {
			_, err := w.runtime.StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: r.PodSandboxId})
			must(t, err)
			_, err = w.runtime.RemovePodSandbox(w.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: r.PodSandboxId})
			must(t, err)
		})
	}
	return pod{r.GetPodSandboxId(), config}, err
}

// testHostProcess: a HostProcess sandbox has the host's network; sandbox and containers must be of one kind.
func testHostProcess(t *testing.T, w *world) {
	asHost := func(c *runtimeapi.ContainerConfig) {
		c.Windows.SecurityContext = &runtimeapi.WindowsContainerSecurityContext{HostProcess: true}
	}
	host, err := sandboxAs(t, w, "host", &runtimeapi.WindowsSandboxSecurityContext{HostProcess: true})
	must(t, err)
	st, err := w.runtime.PodSandboxStatus(w.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: host.id})
	must(t, err)
	if ip := st.GetStatus().GetNetwork().GetIp(); ip != "" || len(st.GetStatus().GetAnnotations()) != 0 {
		t.Errorf("a HostProcess sandbox has the address %q and annotations %v", ip, st.GetStatus().GetAnnotations())
	}

	plain, err := sandboxAs(t, w, "plain", &runtimeapi.WindowsSandboxSecurityContext{})
	must(t, err)
	const want = "pod spec and all containers inside must have the HostProcess field set to be valid"
	if _, err := w.create(t, host, "plain", nil, "id"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a container of a HostProcess pod that is none itself: %v", err)
	}
	if _, err := w.create(t, plain, "host", asHost, "id"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a HostProcess container of another pod: %v", err)
	}
	lies := pod{plain.id, host.config}
	if _, err := w.create(t, lies, "host", asHost, "id"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a HostProcess container of a sandbox that was made otherwise: %v", err)
	}
	w.exited(t, w.started(t, host, "app", asHost, "id"))

	id := w.started(t, host, "image", func(c *runtimeapi.ContainerConfig) {
		asHost(c)
		c.Command = []string{`C:\hpc\testapp.exe`}
	}, "env")
	if w.exited(t, id); !strings.Contains(w.log(t, id), `CONTAINER_SANDBOX_MOUNT_POINT=C:\hpc`) {
		t.Errorf("a HostProcess container's environment:\n%s", w.log(t, id))
	}
}

// testUsers: a program sees the name of its user, and one that Windows does not know starts nothing.
func testUsers(t *testing.T, w *world) {
	const wrong = "The user name or password is incorrect."
	if _, err := sandboxAs(t, w, "foolish", &runtimeapi.WindowsSandboxSecurityContext{RunAsUsername: "FooLish"}); err == nil || !strings.Contains(err.Error(), wrong) {
		t.Errorf("a sandbox of an unknown user: %v", err)
	}
	p, err := sandboxAs(t, w, "users", &runtimeapi.WindowsSandboxSecurityContext{RunAsUsername: "ContainerUser"})
	must(t, err)
	as := func(user string) func(*runtimeapi.ContainerConfig) {
		return func(c *runtimeapi.ContainerConfig) {
			c.Windows.SecurityContext = &runtimeapi.WindowsContainerSecurityContext{RunAsUsername: user}
		}
	}

	id, err := w.create(t, p, "wrong", as("FooLish"), "id")
	must(t, err)
	_, err = w.runtime.StartContainer(w.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	if s := w.status(t, id); err == nil || !strings.Contains(err.Error(), wrong) || s.Reason != "StartError" || s.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("a container of an unknown user: %v, status %v", err, s)
	}
	for user, want := range map[string]string{"": "ContainerUser", "ContainerAdministrator": "ContainerAdministrator"} {
		id := w.started(t, p, "as"+user, as(user), "env")
		if w.exited(t, id); !strings.Contains(w.log(t, id), "USERNAME="+want+"\n") {
			t.Errorf("user %q is not told to be %s:\n%s", user, want, w.log(t, id))
		}
	}
}

// testExecBesideStart: programs that are started in a container while its own begins, several at a time, run and end, and so do some at
// once later. Without the launcher's event and the wait of an exec, some of them wait five minutes for each other.
func testExecBesideStart(t *testing.T, w *world, p pod) {
	id, err := w.create(t, p, "beside", nil, "serve")
	must(t, err)
	started := make(chan error, 1)
	go func() {
		_, err := w.runtime.StartContainer(w.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
		started <- err
	}()
	wait.True(t, 20*time.Second, "the container to run", func() bool {
		return w.status(t, id).State == runtimeapi.ContainerState_CONTAINER_RUNNING
	})

	for _, when := range []string{"beside the start", "later"} {
		const atOnce = 4
		ended := make(chan error, atOnce)
		for n := range atOnce {
			go func() {
				word := fmt.Sprint("word ", n)
				r, err := w.runtime.ExecSync(w.ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"testapp.exe", "echo", word}, Timeout: 30})
				if err == nil && string(r.Stdout) != word+"\n" {
					err = fmt.Errorf("exit code %d, %q, error output %q", r.ExitCode, r.Stdout, r.Stderr)
				}
				ended <- err
			}()
		}
		for range atOnce {
			if err := <-ended; err != nil {
				t.Errorf("one of %d execs at once, %s: %v", atOnce, when, err)
			}
		}
	}
	must(t, <-started)
	w.logShows(t, id, "serving HTTP")
	w.remove(t, id)
}

// testDomain: a container is joined to the domain of its own credential spec, as nltest says, and one without to none.
func testDomain(t *testing.T, w *world, p pod) {
	const spec = `{"CmsPlugins": ["ActiveDirectory"], "DomainJoinConfig": {"DnsName": "contoso.org", "NetBiosName": "CONTOSO"}}`
	joined := func(c *runtimeapi.ContainerConfig) {
		c.Windows.SecurityContext = &runtimeapi.WindowsContainerSecurityContext{CredentialSpec: spec}
	}
	for _, c := range []struct {
		name   string
		change func(*runtimeapi.ContainerConfig)
		code   int32
		want   string
	}{
		{"joined", joined, 0, "contoso.org. (1)\r\nThe command completed successfully\r\n"},
		{"not-joined", nil, 1, "Getting parent domain failed: Status = 1355 0x54b ERROR_NO_SUCH_DOMAIN\r\n"},
	} {
		id := w.started(t, p, c.name, c.change, "serve")
		w.logShows(t, id, "serving HTTP")
		if r := w.exec(t, id, "nltest", "/PARENTDOMAIN"); r.ExitCode != c.code || string(r.Stdout) != c.want {
			t.Errorf("%s: code %d, %q", c.name, r.ExitCode, r.Stdout)
		}
		w.remove(t, id)
	}
}

// testStatsFault: the list fails as a whole, and each sandbox can be asked by itself.
func testStatsFault(t *testing.T, w *world, p pod) {
	list := func() (*runtimeapi.ListPodSandboxStatsResponse, error) {
		return w.runtime.ListPodSandboxStats(w.ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	}
	ask := func(id string) error {
		_, err := w.runtime.PodSandboxStats(w.ctx, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: id})
		return err
	}
	other, err := sandboxAs(t, w, "other", &runtimeapi.WindowsSandboxSecurityContext{})
	must(t, err)

	must(t, cri.Profile{NoStats: []string{"default/other"}}.Write(w.dir))
	defer func() { must(t, cri.Profile{}.Write(w.dir)) }()
	if _, err := list(); err == nil || !strings.Contains(err.Error(), other.id) || !strings.Contains(err.Error(), "0xc0370105") {
		t.Errorf("the list with a sandbox that has none: %v", err)
	}
	if err := ask(other.id); err == nil {
		t.Error("the sandbox has statistics")
	}
	if err := ask(p.id); err != nil {
		t.Errorf("another sandbox: %v", err)
	}
	must(t, cri.Profile{}.Write(w.dir))
	if all, err := list(); err != nil || len(all.Stats) != 2 {
		t.Errorf("the list afterwards: %v, %v", all, err)
	}
}

// testLateEnds: with the profile, an end is seen 5 s after the start, by every call and by the events, and has its true time.
func testLateEnds(t *testing.T, w *world, p pod) {
	must(t, cri.Profile{LateEnds: true}.Write(w.dir))
	defer func() { must(t, cri.Profile{}.Write(w.dir)) }()
	events, err := w.runtime.GetContainerEvents(w.ctx, &runtimeapi.GetEventsRequest{})
	must(t, err)

	begin := time.Now()
	id := w.started(t, p, "quick", nil, "exit", "3")
	for seen := false; !seen; {
		e, err := events.Recv()
		must(t, err)
		seen = e.ContainerId == id && e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
		if at := time.Since(begin); !seen && at < 4*time.Second {
			if s := w.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_RUNNING && s.StartedAt != 0 {
				t.Errorf("after %v the container is %v", at, s)
			}
		}
	}
	s := w.status(t, id)
	if took, ran := time.Since(begin), time.Duration(s.FinishedAt-s.StartedAt); took < 5*time.Second || took > 8*time.Second || ran > 4*time.Second || s.ExitCode != 3 {
		t.Errorf("the end is seen after %v: %v", took, s)
	}
	w.remove(t, id)

	id = w.started(t, p, "stopped", nil, "serve")
	begin = time.Now()
	_, err = w.runtime.StopContainer(w.ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 3})
	must(t, err)
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("a container that was just started is stopped after %v", took)
	}
	w.remove(t, id)
}
