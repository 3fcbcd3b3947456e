package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// startCases are the ways to start a program.
type startCases struct{ containers }

// testPrograms starts programs in the ways that a pod may ask for: what they see, how they end, and what a start that
// fails says.
func (w startCases) testPrograms(t *testing.T) {
	w.write("var/log/pods/programs/.keep", "")
	p := w.runPod(t, "programs")
	for name, test := range map[string]func(*testing.T, pod){
		"environment": w.testEnvironment, "exit codes": w.testExitCodes, "names": w.testNames, "users": w.testUsers,
		"no program": w.testNoProgram,
		"DNS":        w.testDNS, "domain": w.testDomain, "execs beside the start": w.testExecsBesideStart,
	} {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
	if err := w.removePod(p); err != nil {
		t.Error(err)
	}
}

// begin creates a container of the test image and starts it.
func (w startCases) begin(t *testing.T, p pod, name string, change func(*runtimeapi.ContainerConfig),
	args ...string) (id string, err error) {
	t.Helper()
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: testImage},
		LogPath: name + ".log", Args: args,
		Windows: &runtimeapi.WindowsContainerConfig{SecurityContext: &runtimeapi.WindowsContainerSecurityContext{}},
	}
	if change != nil {
		change(config)
	}
	c, err := w.runtime.CreateContainer(call(t),
		&runtimeapi.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config, Config: config})
	check(t, err)
	_, err = w.runtime.StartContainer(call(t), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId})
	return c.ContainerId, err
}

func (w startCases) status(t *testing.T, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	r, err := w.runtime.ContainerStatus(call(t), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	check(t, err)
	return r.Status
}

// ended starts a container and returns its status when its program has ended.
func (w startCases) ended(t *testing.T, p pod, name string, change func(*runtimeapi.ContainerConfig),
	args ...string) *runtimeapi.ContainerStatus {
	t.Helper()
	id, err := w.begin(t, p, name, change, args...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	wait.True(t, time.Minute, name+" ends",
		func() bool { return w.status(t, id).State == runtimeapi.ContainerState_CONTAINER_EXITED })
	return w.status(t, id)
}

func (w startCases) testEnvironment(t *testing.T, p pod) {
	w.ended(t, p, "env", func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "COLOUR", Value: []byte("blue green")},
			{Key: "Temp", Value: []byte(`C:\scratch`)}}
	}, "env")
	for _, want := range []string{"COLOUR=blue green", `C:\scratch`, "PORTHOLE_IMAGE_BUILD=10.0.20348.3695", `PATH=`} {
		if log := w.podLog(p, "env"); !strings.Contains(log, want) {
			t.Errorf("environment lacks %s:\n%s", want, log)
		}
	}
	w.ended(t, p, "id", func(c *runtimeapi.ContainerConfig) { c.WorkingDir = `C:\windows` }, "id")
	for _, want := range []string{"hostname=programs", `dir=C:\windows`, "os=windows"} {
		if log := w.podLog(p, "id"); !strings.Contains(log, want) {
			t.Errorf("id lacks %s:\n%s", want, log)
		}
	}
}

// testExitCodes: they have 32 bits. An end is seen 5 s after the start at the earliest, with its true time
// (docs/windows-facts.md).
func (w startCases) testExitCodes(t *testing.T, p pod) {
	for code, text := range map[int32]string{300: "300", -1073741510: "3221225786", -1: "-1"} {
		begin := time.Now()
		s := w.ended(t, p, "code"+text, nil, "exit", text)
		if s.ExitCode != code || s.Reason != "Error" {
			t.Errorf("exit code %d (%s), want %d", s.ExitCode, s.Reason, code)
		}
		if took, ran := time.Since(begin), time.Duration(s.FinishedAt-s.StartedAt); took < 5*time.Second ||
			ran > 4*time.Second {
			t.Errorf("the end is seen after %v, and said to be after %v", took, ran)
		}
	}
}

// testNames: a program has the name and the arguments that it was started with.
func (w startCases) testNames(t *testing.T, p pod) {
	for name, program := range map[string]string{"full": `C:\testapp.exe`, "rooted": "/testapp",
		"file": "testapp.exe"} {
		named := func(c *runtimeapi.ContainerConfig) { c.Command = []string{program} }
		s := w.ended(t, p, name, named, "id", "two words", `quote"and\`)
		if want := fmt.Sprintf(`args=[%q "id" "two words" "quote\"and\\"]`, program); s.ExitCode != 0 ||
			!strings.Contains(w.podLog(p, name), want) {
			t.Errorf("exit code %d, log without %s:\n%s", s.ExitCode, want, w.podLog(p, name))
		}
	}
}

// testUsers: a program sees the name of its user, and one that Windows does not know starts nothing.
func (w startCases) testUsers(t *testing.T, p pod) {
	as := func(user string) func(*runtimeapi.ContainerConfig) {
		return func(c *runtimeapi.ContainerConfig) { c.Windows.SecurityContext.RunAsUsername = user }
	}
	for user, want := range map[string]string{"": "ContainerUser", "ContainerAdministrator": "ContainerAdministrator"} {
		if w.ended(t, p, "as"+user, as(user), "env"); !strings.Contains(w.podLog(p, "as"+user), "USERNAME="+want+"\n") {
			t.Errorf("user %q is not told to be %s:\n%s", user, want, w.podLog(p, "as"+user))
		}
	}
	id, err := w.begin(t, p, "foolish", as("FooLish"), "id")
	if s := w.status(t, id); err == nil || !strings.Contains(err.Error(), "The user name or password is incorrect.") ||
		s.Reason != "StartError" {
		t.Errorf("a container of an unknown user: %v, status %v", err, s)
	}
}

func (w startCases) testNoProgram(t *testing.T, p pod) {
	id, err := w.begin(t, p, "absent", func(c *runtimeapi.ContainerConfig) { c.Command = []string{`C:\nothing.exe`} })
	if err == nil || !strings.Contains(err.Error(), "cannot find the file") {
		t.Errorf("starting an absent program: %v", err)
	}
	if s := w.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_EXITED || s.Reason != "StartError" ||
		s.ExitCode != 128 || !strings.Contains(s.Message, "cannot find the file") {
		t.Errorf("after it: %v", s)
	}
}

// testDNS: the pod's servers and suffixes are in the registry of its containers, and ipconfig shows them.
func (w startCases) testDNS(t *testing.T, p pod) {
	id := w.run(t, p, asked{name: "dns"}, "serving HTTP")
	if out := w.shell(t, id,
		`reg query HKLM\System\CurrentControlSet\Services\Tcpip\Parameters\Interfaces /s`); !strings.Contains(out,
		"10.96.0.10") {
		t.Errorf("the adapter's settings are %s", out)
	}
	if out := w.shell(t, id, "ipconfig /all"); !strings.Contains(out, "10.96.0.10") {
		t.Errorf("ipconfig /all: %s", out)
	}
	w.removeContainer(t, id)
}

// removeContainer ends a container: those of a pod have one network, in which each server needs its port.
func (w startCases) removeContainer(t *testing.T, id string) {
	t.Helper()
	_, err := w.runtime.StopContainer(call(t), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 1})
	check(t, err)
	_, err = w.runtime.RemoveContainer(call(t), &runtimeapi.RemoveContainerRequest{ContainerId: id})
	check(t, err)
}

// testDomain: a container is joined to the domain of its own credential spec, as nltest says, and one without to none.
func (w startCases) testDomain(t *testing.T, p pod) {
	const spec = `{"CmsPlugins": ["ActiveDirectory"], "DomainJoinConfig": {"DnsName": "contoso.org", "NetBiosName": "CONTOSO"}}`
	for _, c := range []struct {
		name, spec string
		code       int32
		want       string
	}{
		{"joined", spec, 0, "contoso.org. (1)\nThe command completed successfully\n"},
		{"not-joined", "", 1, "Getting parent domain failed: Status = 1355 0x54b ERROR_NO_SUCH_DOMAIN\n"},
	} {
		id, err := w.begin(t, p, c.name,
			func(config *runtimeapi.ContainerConfig) { config.Windows.SecurityContext.CredentialSpec = c.spec },
			"serve")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r, err := w.runtime.ExecSync(call(t),
			&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"nltest", "/PARENTDOMAIN"}, Timeout: 20})
		if err != nil || r.ExitCode != c.code || strings.ReplaceAll(string(r.Stdout), "\r\n", "\n") != c.want {
			t.Errorf("%s: %v, %v", c.name, r, err)
		}
		w.removeContainer(t, id)
	}
	state, err := os.ReadFile(filepath.Join(w.dir, "hosts", w.name, "hcs", "state.json"))
	if err != nil || strings.Contains(string(state), "contoso") {
		t.Errorf("HCS still has the credential spec: %s, %v", state, err)
	}
}

// testExecsBesideStart: programs that are started in a container while its own begins, several at a time, run and end,
// and so do some at once later. Without the launcher's event some of them wait five minutes for each other
// (docs/windows-facts.md).
func (w startCases) testExecsBesideStart(t *testing.T, p pod) {
	id, err := w.begin(t, p, "beside", nil, "serve")
	check(t, err)
	for _, when := range []string{"beside the start", "later"} {
		const atOnce = 4
		ended := make(chan error, atOnce)
		for n := range atOnce {
			go func() {
				word := fmt.Sprint("word ", n)
				r, err := w.runtime.ExecSync(t.Context(),
					&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"testapp.exe", "echo", word},
						Timeout: 30})
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
	w.removeContainer(t, id)
}
