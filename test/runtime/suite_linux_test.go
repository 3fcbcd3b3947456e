package runtime

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// suiteConfig is what the suite wants of containerd: its sandbox image, and the time that upstream's script sets.
const suiteConfig = `version = 4

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '127.0.0.1:5000/pause:3.10.2'

[plugins.'io.containerd.cri.v1.runtime']
  drain_exec_sync_io_timeout = '10s'
`

// suiteTable is where the result of each test is written down: "| name | result | reason |".
const suiteTable = "../../docs/evidence/cri-tests.md"

var suiteResult = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+).*`)

var suiteRow = regexp.MustCompile(`(?m)^\| (Test\w+) \| (PASS|FAIL|SKIP) \|`)

// suiteProgram is what `make cri-suite` builds.
const suiteProgram = "../../bin/bundle/windows/cri-integration.test.exe"

// quickTests are those that make test runs too: they wait for no container to end.
const quickTests = "^Test(TruncIndex|DuplicateName|ImageFSInfo|RuntimeHandler|PodHostname|CreateContainer|RunPodSandboxWithoutMetadata|" +
	"CreateContainerWithoutMetadata|ContainerdImage|ContainerStats)$"

// TestCRISuite runs containerd's own tests of its CRI on a host, and compares what each says with
// docs/evidence/cri-tests.md.
// Row 1.83.
func TestCRISuite(t *testing.T) {
	focus := cmp.Or(os.Getenv("PORTHOLE_CRI_FOCUS"), ".")
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		focus = quickTests
	}
	if _, err := os.Stat(suiteProgram); err != nil {
		t.Skip("run `make cri-suite` first: ", err)
	}
	w := buildPrograms(t).newWorld(t, "20348")
	w.useRegistry()
	w.pushSuiteImages()
	w.write("Program Files/containerd/conf.d/suite.toml", suiteConfig)
	w.write("suite/images.toml", suiteList)
	usePowershell(t, w.driveC())
	w.restartContainerd()
	w.useNetwork()

	output := w.runSuite(focus)
	for _, m := range suiteResult.FindAllString(output, -1) {
		t.Log(m) // with its time
	}
	got := suiteResults(output)
	if len(got) == 0 {
		t.Fatalf("no test ran:\n%s", output)
	}
	table, err := os.ReadFile(suiteTable)
	if err != nil {
		t.Fatal(err)
	}
	compareResults(t, comparison{suiteTable, rows(suiteRow, table), got, focus == "."})
	if t.Failed() {
		t.Logf("the suite says:\n%s", output)
	}
}

// usePowershell gives the host whose C: it is a powershell.exe, which it has not.
func usePowershell(t *testing.T, driveC string) {
	t.Helper()
	command(t, forWindows, "go", "build", "-o", filepath.Join(driveC, "windows", "powershell.exe"),
		"./testdata/powershell")
}

// runSuite runs the tests that match focus, and returns what they print.
func (w *world) runSuite(focus string) string {
	return runTests(w, 12*time.Minute, suiteProgram, "-test.timeout=11m", "-test.run="+focus,
		"-cri-endpoint=npipe://./pipe/containerd-containerd", "-runtime-handler=runhcs-wcow-process",
		"-containerd-bin=containerd.exe", `-image-list=C:\suite\images.toml`)
}

// runTests runs a program of tests on the host for no longer than limit, and returns what it prints.
func runTests(w *world, limit time.Duration, program string, args ...string) string {
	w.t.Helper()
	exe, err := filepath.Abs(program)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.porthole,
		append([]string{"host", "run", "--dir", w.dir, w.name, "--", exe, "-test.v"}, args...)...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	err = cmd.Run() // also an error if a test fails: the results say which
	w.t.Logf("%s ran for %v: %v", filepath.Base(program), time.Since(begin).Round(time.Second), err)
	return out.String()
}

// restartContainerd kills containerd.exe, and waits for the one that the host starts then.
func (w *world) restartContainerd() {
	w.t.Helper()
	w.must("run", w.name, "--", "taskkill", "/IM", "containerd.exe", "/F")
	wait.True(w.t, time.Minute, "containerd.exe is back", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		defer cancel()
		_, err := w.runtime.Version(ctx, &runtimeapi.VersionRequest{})
		return err == nil
	})
}

// suiteResults are the results of the tests by name.
func suiteResults(output string) map[string]string {
	results := map[string]string{}
	for _, m := range suiteResult.FindAllStringSubmatch(output, -1) {
		results[m[2]] = m[1]
	}
	return results
}

// rows are the results that a table has, by what the first group of form matches.
func rows(form *regexp.Regexp, table []byte) map[string]string {
	results := map[string]string{}
	for _, m := range form.FindAllSubmatch(table, -1) {
		results[string(m[1])] = string(m[2])
	}
	return results
}

// comparison is of results with those of a table.
type comparison struct {
	table     string // file
	want, got map[string]string
	all       bool // all tests ran
}

// compareResults fails the test for each result that is not the wanted one. If all tests ran, a wanted one that is
// missing is an error too.
func compareResults(t *testing.T, c comparison) {
	t.Helper()
	count := map[string]int{}
	for name, result := range c.got {
		count[result]++
		if c.want[name] != result {
			t.Errorf("%s: %s, and %s says %s", name, result, c.table, cmp.Or(c.want[name], "nothing"))
		}
	}
	for name := range c.want {
		if c.all && c.got[name] == "" {
			t.Errorf("%s of %s did not run", name, c.table)
		}
	}
	t.Log(fmt.Sprint(len(c.got), " results: ", count))
}
