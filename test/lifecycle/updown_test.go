package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/statefolder"
)

// cluster is one state folder and the program that works on it.
type cluster struct {
	t             *testing.T
	porthole, dir string
}

func newCluster(t *testing.T) cluster {
	if os.Geteuid() != 0 {
		t.Fatal("making namespaces and mounts needs root")
	}
	porthole, err := filepath.Abs("../../bin/porthole")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(porthole); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	dir, remove, err := statefolder.Make(porthole)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	return cluster{t, porthole, dir}
}

func (c cluster) run(limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.porthole, append(args, "--dir", c.dir)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("porthole %v: %w: %s", args, err, out)
	}
	return string(out), err
}

func (c cluster) must(args ...string) string {
	c.t.Helper()
	started := time.Now()
	out, err := c.run(4*time.Minute, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("porthole %s: %.1f s", args[0], time.Since(started).Seconds())
	return out
}

// upKilledAfter starts `up` and kills it once it has printed line.
func (c cluster) upKilledAfter(line string) {
	c.t.Helper()
	cmd := exec.Command(c.porthole, "up", "--dir", c.dir)
	out := &watched{want: line, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-out.seen:
	case err := <-ended:
		c.t.Fatalf("up ended before %q: %v: %s", line, err, out.text.String())
	case <-time.After(2 * time.Minute):
		c.t.Errorf("up did not get to %q in two minutes", line)
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	<-ended
}

// watched closes seen when the text that it is given holds want.
type watched struct {
	text bytes.Buffer // not embedded: its ReadFrom would go past Write
	want string
	seen chan struct{}
	done bool
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	if !w.done && strings.Contains(w.text.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return n, err
}

// TestUpAndDown: `up` goes on after it was killed and changes nothing on a running cluster; `down` leaves nothing on
// the machine, also after a killed `up`, after killed supervisors, and twice.
func TestUpAndDown(t *testing.T) {
	c := newCluster(t)
	before := inventory(c.dir)

	c.upKilledAfter("Windows hosts")
	c.must("up")
	pids := c.pids()
	c.must("up")
	if after := c.pids(); after != pids {
		t.Errorf("up on a running cluster changed processes:\n%s\n%s", pids, after)
	}
	c.must("down")
	compare(t, before, inventory(c.dir))

	c.upKilledAfter("processes")
	c.must("down")
	compare(t, before, inventory(c.dir))
	c.must("down") // of nothing

	c.must("up")
	c.killSupervisors()
	c.must("down")
	compare(t, before, inventory(c.dir))
}

// pids lists every process of the cluster as status shows it.
func (c cluster) pids() string {
	var lines []string
	for _, line := range strings.Split(c.must("status"), "\n") {
		if strings.Contains(line, " running ") {
			lines = append(lines, strings.Join(strings.Fields(line)[:4], " "))
		}
	}
	return strings.Join(lines, "\n")
}

// killSupervisors leaves a cluster without anybody who looks after it.
func (c cluster) killSupervisors() {
	c.t.Helper()
	var pids []int
	for _, line := range strings.Split(c.must("status"), "\n") {
		var name, phase string
		var pid int
		if n, _ := fmt.Sscan(line, &name, &phase, &pid); n == 3 && (name == "supervisor" || name == "standby") {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 {
		c.t.Fatalf("supervisors: %v", pids)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.t.Error(err)
		}
	}
}

// inventory is what a cluster could leave on the machine, one thing a line.
func inventory(dir string) []string {
	var all []string
	for _, pattern := range []string{"/var/run/netns/porthole[-.]*", "/var/run/netns/hns-*", "/var/run/netns/cni-*",
		"/sys/fs/cgroup/*/porthole*", "/sys/fs/cgroup/porthole*", "/tmp/.wine-0/*"} {
		found, _ := filepath.Glob(pattern)
		all = append(all, found...)
	}

	for _, args := range [][]string{
		{"ip", "-o", "link"}, {"ip", "route", "show", "table", "all"}, {"ip", "rule"}, {"ip", "-6", "rule"},
		{"nft", "--stateless", "list", "ruleset"},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			out = []byte(err.Error())
		}
		for _, line := range strings.Split(string(out), "\n") {
			all = append(all, strings.Join(args, " ")+": "+line)
		}
	}

	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, dir) {
			all = append(all, "mount "+line)
		}
	}

	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		data, _ := os.ReadFile(p)
		if text := strings.ReplaceAll(string(data), "\x00", " "); strings.Contains(text, dir) ||
			strings.Contains(text, `C:\k\`) {
			all = append(all, "process "+text)
		}
	}

	sort.Strings(all)
	return all
}

func compare(t *testing.T, before, after []string) {
	t.Helper()
	had := map[string]bool{}
	for _, line := range before {
		had[line] = true
	}
	for _, line := range after {
		if !had[line] {
			t.Errorf("left behind: %s", line)
		}
	}
}
