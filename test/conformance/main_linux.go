package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// options of one run.
type options struct {
	bin      string        // folder of the built programs
	dir      string        // state folder of the cluster
	node     string        // lin or win: which nodes the pods run on
	suite    string        // one of suites
	kubelet  string        // of the Linux nodes: ours, or upstream's
	focus    string        // regular expression that a test's name must match; empty: all
	skip     string        // regular expression of tests to leave out; empty: none
	labels   string        // which of the suite's labels, as ginkgo's --label-filter; empty: those of suite
	driver   string        // for storage-hostpath: the program of csi-driver-host-path
	parallel int           // ginkgo processes
	limit    time.Duration // for the whole suite
	repo     string        // where to write results and the document; empty: nowhere
	keep     bool          // leave a cluster that was started here running
	images   bool          // push the images and do no more
	from     string        // report of an earlier run to take in, without another run
	document bool          // only write the document again
	logs     string        // folder for the suite's output and report
}

// defaultDir is the state folder of a cluster. shortDir takes its place for tests that make sockets with long names
// below a kubelet's folder: the path of a socket has at most 107 bytes.
const (
	defaultDir = "/var/lib/porthole"
	shortDir   = "/tmp/dra"
)

// parse reads the flags and checks that they go together, so that nothing is started for a run that
// cannot be.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("conformance", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin", "folder of the built programs")
	f.StringVar(&o.dir, "dir", defaultDir,
		"state folder of the cluster; one that runs there with the right nodes is used")
	f.StringVar(&o.node, "node", "lin", "which nodes to judge: lin or win")
	f.StringVar(&o.suite, "suite", "conformance", "which tests: "+suiteNames())
	f.StringVar(&o.kubelet, "kubelet", ours,
		"kubelet of the Linux nodes: "+ours+", or "+upstreams+", which is what ours is compared with")
	f.StringVar(&o.focus, "focus", "", "regular expression that a test's name must match")
	f.StringVar(&o.skip, "skip", "", "regular expression of tests to leave out")
	f.StringVar(&o.labels, "labels", "",
		"which of the suite's labels, as an expression for ginkgo (default: those of -suite)")
	f.StringVar(&o.driver, "driver", "",
		"for "+storageHostPath+": the program of csi-driver-host-path, which is run as it is")
	f.IntVar(&o.parallel, "parallel", 10, "tests at once; those that must be alone come last")

	f.DurationVar(&o.limit, "limit", 3*time.Hour, "end the suite after this time")
	f.StringVar(&o.repo, "repo", ".", "write results and docs/evidence/conformance.md in this repository; empty: do not")
	f.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	f.BoolVar(&o.images, "images", false, "push the images to a running cluster's registry and end")
	f.StringVar(&o.from, "from", "", "take in this report.json of an earlier run of some tests, and end")
	f.BoolVar(&o.document, "document", false,
		"write docs/evidence/conformance.md from the results and reasons that are there, and end")
	f.StringVar(&o.logs, "logs", "",
		"folder for the suite's output and report (default: conformance/logs-<node> in -bin)")
	if err := f.Parse(args); err != nil {
		return o, err
	}

	if o.node != "lin" && o.node != "win" {
		return o, fmt.Errorf("-node %s: must be lin or win", o.node)
	}
	if err := checkSuite(o.suite, o.node, o.kubelet); err != nil {
		return o, err
	}
	// The driver is needed for a run of its suite only.
	if (o.suite == storageHostPath) != (o.driver != "") && !o.document && o.from == "" {
		return o,
			fmt.Errorf(
				"-driver FILE is for -suite %s, and needed there: the program of csi-driver-host-path, hostpathplugin",
				storageHostPath)
	}
	if o.labels == "" {
		o.labels = suites[o.suite].labels
	}
	if o.parallel < 1 {
		return o, fmt.Errorf("-parallel %d: at least 1", o.parallel)
	}
	var err error
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return o, err
	}

	// Paths of sockets are longer in the suite dra.
	if o.suite == dra && o.dir == defaultDir {
		o.dir = shortDir
	}
	if o.logs == "" {
		o.logs = filepath.Join(o.bin, "conformance", "logs-"+o.set())
	}
	o.logs, err = filepath.Abs(o.logs) // ginkgo may start in another folder
	return o, err
}

// set returns the name under which the results of this run are kept.
// Results of ours and of upstream's kubelet have names of their own.
func (o options) set() string { return setName(o.suite, o.node, o.kubelet) }

// run brings up the cluster, pushes images, runs the suite and writes down what it found. An error also means: some
// test failed for which no reason is known, or a reason is no longer true.
func run(ctx context.Context, o options) (err error) {
	// Three modes end early: writing the document, taking in a report, and pushing images.
	if o.document {
		return write(o, nil)
	}
	if o.from != "" {
		return takeIn(o)
	}
	c := newCluster(o)
	if !o.images {
		if err := c.up(ctx); err != nil {
			return err
		}
		if !o.keep {
			defer func() { err = errors.Join(err, c.down()) }()
		}
	}

	start := time.Now()
	if err := c.pushImages(ctx); err != nil {
		return err
	}
	fmt.Printf("images pushed in %.1fs\n", time.Since(start).Seconds())
	if o.images {
		return nil
	}
	// Without results there is nothing to write. With results the error of the run is joined with
	// what they say.
	list, err := c.judge(ctx)
	switch {
	case len(list) == 0:
		return err
	case o.repo == "":
		return errors.Join(err, failures(list))
	}
	return errors.Join(err, write(o, list))
}

// judge prepares what the suite needs beside the cluster, runs it, and takes away what it has prepared. There is no
// error if tests fail.
func (c *suiteCluster) judge(ctx context.Context) (list []result, err error) {
	// Node tests have a machine of their own beside the cluster.
	if c.o.suite == nodeE2E {
		node := newNodeSuite(c.o)
		defer func() { err = errors.Join(err, node.remove()) }()
		if err := node.prepare(); err != nil {
			return nil, err
		}
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}

	// What is deployed depends on the suite, and each part has its own undoing, in reverse.
	if c.o.suite == sigWindows {
		stop, err := c.outside(ctx)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	switch {
	case c.o.suite == storageHostPath:
		stop, err := c.startHostPath(ctx)
		if err != nil {
			return nil, err
		}
		defer stop()
	case suites[c.o.suite].storage:
		if err := c.deployStorage(ctx); err != nil {
			return nil, err
		}
	}
	if c.o.suite == dra && c.o.kubelet == ours {
		if err := c.showPluginFolder(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.hidePluginFolder()) }()
	}

	list, err = c.suite(ctx)
	summarise(os.Stdout, list)
	if len(list) > 0 {
		err = nil // it has said that tests failed
	}
	return list, err
}

// takeIn adds what an earlier run with -repo "" found.
func takeIn(o options) error {
	f, err := os.Open(o.from)
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := readReport(f)
	if err != nil {
		return err
	}
	// A report of some tests must not remove the results of others.
	if o.focus == "" {
		o.focus = "some" // what other tests gave stays
	}
	return write(o, list)
}

// failures is an error if a test of list failed or was cut off.
func failures(list []result) error {
	n := count(list, failed)
	if n > 0 {
		return errors.Join(cut(list), fmt.Errorf("%d tests failed", n))
	}
	return cut(list)
}

// cut is an error if the limit ended tests.
func cut(list []result) error {
	if n := count(list, unfinished); n > 0 {
		return fmt.Errorf("the time was over before all tests had run: %d were cut off; -limit gives more", n)
	}
	return nil
}

// count is how many results have a state.
func count(list []result, state string) int {
	n := 0
	for _, one := range list {
		if one.State == state {
			n++
		}
	}
	return n
}

// write adds results to those of the repository, writes the document again, and checks the reasons.
func write(o options, list []result) error {
	home := filepath.Join(o.repo, "test", "conformance")
	// All sets are read, because the document shows all of them.
	all := map[string]results{}
	for _, set := range sets() {
		have, err := loadResults(filepath.Join(home, "results-"+set+".json"))
		if err != nil {
			return err
		}
		all[set] = have
	}

	why, err := loadReasons(filepath.Join(home, "reasons.json"))
	if err != nil {
		return err
	}
	// Tests that were cut off for a known reason count as failed from here on.
	list = why.settle(o.set(), list)
	all[o.set()].add(list)
	if len(list) > 0 && o.focus == "" && o.skip == "" {
		all[o.set()].keep(list) // the suite may have lost tests since earlier runs
	}
	if err := all[o.set()].save(filepath.Join(home, "results-"+o.set()+".json")); err != nil {
		return err
	}

	path := filepath.Join(o.repo, "docs", "evidence", "conformance.md")
	if err := os.WriteFile(path, []byte(document(all, why)), 0o644); err != nil {
		return err
	}
	// Reasons are checked against the tests of this run only.
	ran := results{}
	ran.add(list)

	return errors.Join(cut(list), why.check(o.set(), ran))
}
