package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
)

// graceAfterLimit is what ginkgo gets to clean up and report after it was told to end.
const graceAfterLimit = 5 * time.Minute

// endless names tests, by suite, that wait for hours for what cannot come here: a pod for a GPU waits for five. They
// run last, each suite's no longer than endlessLimit; a reason says why more time would change nothing.
var endless = map[string]string{
	sigWindows: "[sig-windows] [Feature:GPUDevicePlugin] Device Plugin should be able to create a functioning device plugin for Windows"}

const endlessLimit = 2 * time.Minute

// inParts are the options of the runs of ginkgo: one for the tests that end, one for those that do not, if any was
// asked for.
func inParts(o options) ([]options, error) {
	name := endless[o.suite]
	if name == "" {
		return []options{o}, nil
	}
	focus, err := regexp.Compile(o.focus)
	if err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	// Two runs: rest leaves the endless test out, last runs it alone with a limit of its own.
	rest := o
	last := o
	exactly := regexp.QuoteMeta(name)
	if rest.skip = exactly; o.skip != "" {
		rest.skip = "(" + o.skip + ")|" + exactly
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return nil, fmt.Errorf("-skip: %w", err)
	}
	// Without the endless test among those asked for there is one run only.
	if !focus.MatchString(name) || o.skip != "" && skip.MatchString(name) {
		return []options{rest}, nil
	}

	last.focus = exactly
	last.limit = endlessLimit
	last.logs = filepath.Join(o.logs, "endless")
	return []options{rest, last}, nil
}

// suite runs the tests and gives what became of each. With an error there may be results too.
func (c *suiteCluster) suite(ctx context.Context) ([]result, error) {
	parts, err := inParts(c.o)
	if err != nil {
		return nil, err
	}
	var list []result
	var errs []error
	for _, o := range parts {
		some, err := newCluster(o).ginkgo(ctx)
		list = append(list, some...)
		errs = append(errs, err)
	}

	err = errors.Join(errs...)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("no test was run: does the focus %q fit any?", c.o.focus)
	}
	return list, err
}

// ginkgo is one run of it.
func (c *suiteCluster) ginkgo(ctx context.Context) ([]result, error) {
	if err := os.MkdirAll(c.o.logs, 0o755); err != nil {
		return nil, err
	}
	// A report of an earlier run must not be taken for this one's.
	report := filepath.Join(c.o.logs, "report.json")
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	output, err := os.Create(filepath.Join(c.o.logs, "output.txt"))
	if err != nil {
		return nil, err
	}
	defer output.Close()

	shown := &progress{log: output, out: os.Stdout, start: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, c.o.limit+graceAfterLimit)
	defer cancel()
	cmd := c.command(ctx)
	cmd.Stdout, cmd.Stderr = shown, shown
	// SIGINT has ginkgo clean up and write its report.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = graceAfterLimit
	fmt.Printf("running the suite; its output goes to %s\n", output.Name())

	ended := cmd.Run()
	f, err := os.Open(report)
	if err != nil {
		return nil, fmt.Errorf("the suite wrote no report: %w", errors.Join(ended, err))
	}
	defer f.Close()
	list, err := readReport(f)
	var exit *exec.ExitError
	if errors.As(ended, &exit) && err == nil {
		ended = nil // that tests failed is in the results
	}
	return list, errors.Join(err, ended)
}

// command runs ginkgo where the suite's tests reach the cluster.
// The tests run in the router's network, where pods and services of the cluster are reached.
func (c *suiteCluster) command(ctx context.Context) *exec.Cmd {
	if c.o.suite == nodeE2E {
		return newNodeSuite(c.o).command(ctx)
	}
	args := []string{"--net=" + platform.NetnsPath(lab.Default.RouterNetns()), c.program("conformance", "ginkgo"),
		"--procs=" + strconv.Itoa(c.o.parallel)}
	args = append(args, c.ginkgoArguments()...)
	return exec.CommandContext(ctx, "nsenter", append(args, c.suiteArguments()...)...)
}

// ginkgoArguments say which tests run, and where the report goes.
func (c *suiteCluster) ginkgoArguments() []string {
	args := []string{
		"--timeout=" + c.o.limit.String(), "--no-color", "--silence-skips",
		"--output-dir=" + c.o.logs, "--json-report=report.json", "--label-filter=" + c.o.labels,
	}
	for _, focus := range c.focus() {
		args = append(args, "--focus="+focus)
	}
	for _, skip := range []string{c.o.skip, suites[c.o.suite].skips()} {
		if skip != "" {
			args = append(args, "--skip="+skip)
		}
	}
	return append(args, c.suiteFilter()...)
}

// suiteArguments are the program of the suite and its own arguments.
func (c *suiteCluster) suiteArguments() []string {
	args := []string{c.program("conformance", "e2e.test"), "--",
		"--kubeconfig=" + c.kubeconfig(), "--kubectl-path=" + c.program("conformance", "kubectl"),
		"--provider=skeleton",
		"--report-dir=" + c.o.logs, "--dump-logs-on-failure=true"}
	switch c.o.suite {
	case storageCSI, storageHostPath:
		args = append(args, "--storage.testdriver="+c.driverFile())
	case dra:
		args = append(args, "--kubelet-root-dir="+filepath.Join(c.o.dir, "hosts", nodesOf(c.o)[0], "kubelet"))
	}
	if c.o.node == "win" {
		return append(args, "--node-os-distro=windows", "--non-blocking-taints=node-role.kubernetes.io/control-plane")
	}
	// Without this flag only the first of ginkgo's parallel processes knows how many nodes there are. The others skip
	// the tests that need two.
	return append(args, fmt.Sprintf("--num-nodes=%d", len(nodesOf(c.o))))
}

// focus is one expression at most: ginkgo runs a test that fits any of several.
func (c *suiteCluster) focus() []string {
	switch all := suites[c.o.suite].focus; {
	case c.o.focus == "" && all == "":
		return nil
	case c.o.focus == "":
		return []string{all}
	case all == "":
		return []string{c.o.focus}
	default:
		return []string{"(" + all + ").*(" + c.o.focus + ")"}
	}
}

// suiteFilter leaves out what upstream does not mean for Windows nodes.
func (c *suiteCluster) suiteFilter() []string {
	if c.o.node == "win" {
		return []string{`--skip=\[LinuxOnly\]`}
	}
	return nil
}

// summarise prints the counts and what failed.
func summarise(out io.Writer, list []result) {
	for _, one := range list {
		if one.State == failed {
			fmt.Fprintf(out, "FAILED %s\n       %s\n", one.Name, firstLine(one.Message))
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped, %d cut off\n", count(list, passed), count(list, failed),
		count(list, skipped), count(list, unfinished))
}
