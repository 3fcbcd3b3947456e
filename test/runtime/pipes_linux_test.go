package runtime

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// testPipes mounts named pipes of the host into a container: programs there open them by the container's name for
// them, several at once, also those that the host serves later. A pipe that is not mounted is not there, one that
// nobody serves ends.
func (w containers) testPipes(t *testing.T) {
	command(t, forWindows, "go", "build", "-o", filepath.Join(w.driveC(), "tools", "pipe.exe"), "./testdata/pipe")
	w.write("var/log/pods/pipes/.keep", "")
	p := w.runPod(t, "pipes")
	id := w.run(t, p, asked{name: "asks", mounts: []*runtimeapi.Mount{
		{HostPath: `C:\tools`, ContainerPath: `C:\tools`, Readonly: true},
		{HostPath: `\\.\pipe\porthole-test`, ContainerPath: `\\.\pipe\inside`},
		{HostPath: `\\.\pipe\porthole\late`, ContainerPath: `\\.\pipe\porthole\late`},
	}}, "serving HTTP")

	w.servePipe(t, `\\.\pipe\porthole-test`)
	ask := func(pipe, word string) string { return w.shell(t, id, `C:\tools\pipe.exe ask `+pipe+` `+word) }
	const first = "one: answer to one same true\n"
	if got := ask(`\\.\pipe\inside`, "one"); got != first {
		t.Errorf("%q", got)
	}
	var all sync.WaitGroup
	for _, word := range []string{"two", "three", "four"} {
		all.Go(func() {
			if got := ask(`\\.\pipe\inside`, word); got != strings.ReplaceAll(first, "one", word) {
				t.Errorf("%q", got)
			}
		})
	}
	all.Wait()

	if out, code := w.try(t, id, `C:\tools\pipe.exe ask \\.\pipe\porthole-test x`); code == 0 {
		t.Errorf("the host's name for the pipe is known in the container: %s", out)
	}
	if out, code := w.try(t, id, `C:\tools\pipe.exe ask \\.\pipe\porthole\late x`); code == 0 {
		t.Errorf("a pipe that nobody serves: %s", out)
	}
	w.servePipe(t, `\\.\pipe\porthole\late`)
	if got := ask(`\\.\pipe\porthole\late`, "five"); got != strings.ReplaceAll(first, "one", "five") {
		t.Errorf("%q", got)
	}
	list, err := w.runtime.ListContainers(call(t),
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: p.id}})
	if err != nil || slices.ContainsFunc(list.Containers,
		func(c *runtimeapi.Container) bool { return c.State != runtimeapi.ContainerState_CONTAINER_RUNNING }) {
		t.Errorf("%+v, %v", list, err)
	}
	if err := w.removePod(p); err != nil {
		t.Error(err)
	}
}

// servePipe has a program of the host serve a pipe until the test ends.
func (w containers) servePipe(t *testing.T, pipe string) {
	t.Helper()
	cmd := exec.Command(w.porthole, "host", "run", "--dir", w.dir, w.name, "--", `C:\tools\pipe.exe`, "serve", pipe)
	out := &testkit.Buffer{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, time.Second
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	wait.True(t, 30*time.Second, pipe+" is served", func() bool { return strings.Contains(out.String(), "serving") })
}
