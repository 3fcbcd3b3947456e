package networks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/statefolder"
	"porthole.dev/porthole/internal/testkit/wait"
)

var (
	porthole string // the program under test
	// state folder of the clusters, of which there is one at a time; they share images and Wine templates
	dir string
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "networks:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("these tests make namespaces and mounts: run them as root")
	}
	if porthole, err = filepath.Abs("../../bin/porthole"); err != nil {
		return 1, err
	}
	if _, err := os.Stat(porthole); err != nil {
		return 1, fmt.Errorf("%s is missing: run `make build` first", porthole)
	}
	var remove func() error
	if dir, remove, err = statefolder.Make(porthole); err != nil {
		return 1, err
	}
	defer func() {
		if !keeps(code) {
			err = errors.Join(err, remove())
		}
	}()
	return m.Run(), nil
}

// keeps reports whether the cluster of a test that failed stays.
func keeps(code int) bool { return code != 0 && os.Getenv("PORTHOLE_NETWORKS_KEEP") != "" }

// shortly is the time limit of a command that waits for nothing.
const shortly = 10 * time.Second

// long skips the test unless the environment has PORTHOLE_NETWORKS=long. `make test` runs without it.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("PORTHOLE_NETWORKS") != "long" {
		t.Skip("takes long: PORTHOLE_NETWORKS=long, or `make test-networks`")
	}
}

// lab is a cluster that runs.
type lab struct {
	t    *testing.T
	mode string
	// nodes are the addresses of its nodes, which are lin01, win01 and win02.
	nodes map[string]netip.Addr
}

var nodeNames = []string{"lin01", "win01", "win02"}

// up brings a cluster up in a mode, with further flags of `porthole up`. It is taken down when the test ends.
func up(t *testing.T, mode string, flags ...string) *lab {
	t.Helper()
	l := &lab{t: t, mode: mode, nodes: map[string]netip.Addr{"lin01": netip.MustParseAddr("10.99.0.11"),
		"win01": netip.MustParseAddr("10.99.0.21"), "win02": netip.MustParseAddr("10.99.0.22")}}
	t.Cleanup(func() {
		if t.Failed() {
			l.logs()
		}
		if t.Failed() && keeps(1) {
			t.Logf("the cluster stays: porthole down --purge --dir %s", dir)
			return
		}
		made := namespaces()
		if _, err := command(2*time.Minute, porthole, "down", "--dir", dir); err != nil {
			t.Error(err)
		}
		for _, name := range made {
			if platform.NetnsExists(name) {
				t.Errorf("`porthole down` left the network namespace %s", name)
			}
		}
	})

	started := time.Now()
	out, err := command(5*time.Minute, porthole, append([]string{"up", "--dir", dir, "--network", mode}, flags...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("porthole up --network %s %s took %.1f s", mode, strings.Join(flags, " "), time.Since(started).Seconds())
	return l
}

// namespaces returns the names of the cluster's network namespaces: those of nodes, and those that the HNS of Windows
// nodes made for pods.
func namespaces() (names []string) {
	for _, node := range nodeNames {
		names = append(names, "porthole-"+node)
		own, _ := serve.OwnNetns(filepath.Join(dir, "hosts", node)) // a node that was not made has none
		names = append(names, own...)
	}
	return names
}

// logs prints the end of every log of the cluster, since they go with it.
func (l *lab) logs() {
	for _, pattern := range []string{"logs/*.log", "hosts/*/logs/*.log"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range files {
			data, _ := os.ReadFile(f)
			l.t.Logf("---- %s\n%s", f, data[max(0, len(data)-3000):])
		}
	}
}

// command runs a program for at most limit and returns its standard output. The error includes its standard error.
func command(limit time.Duration, name string, args ...string) (string, error) {
	return commandIn("", limit, name, args...)
}

// commandIn is command in the network namespace of that name; "" is the caller's own.
func commandIn(netns string, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	path := ""
	if netns != "" {
		path = platform.NetnsPath(netns)
	}
	err := platform.StartInNetns(path, cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s%s", filepath.Base(name), strings.Join(args, " "), err,
			strings.TrimSpace(errs.String()), strings.TrimSpace(out.String()))
	}
	return out.String(), err
}

func kubectl(args ...string) (string, error) {
	return command(time.Minute, porthole, append([]string{"kubectl", "--dir", dir}, args...)...)
}

// apply applies manifests. What they make goes with the cluster.
func (l *lab) apply(manifest string) {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		l.t.Fatal(err)
	}
	if _, err := kubectl("apply", "-f", file); err != nil {
		l.t.Fatal(err)
	}
}

// get reads one object, or a list, into v.
func get(v any, args ...string) error {
	out, err := kubectl(append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), v)
}

// waitPods waits until n pods with a label are ready, and returns them by name.
func (l *lab) waitPods(label string, n int) map[string]v1.Pod {
	l.t.Helper()
	pods := map[string]v1.Pod{}
	wait.NoError(l.t, 90*time.Second, "pods with "+label, func() error {
		var list v1.PodList
		if err := get(&list, "pods", "-l", label); err != nil {
			return err
		}
		for _, p := range list.Items {
			if !ready(p) {
				return fmt.Errorf("%s is not ready (%s): %+v", p.Name, p.Status.Phase, p.Status.ContainerStatuses)
			}
			pods[p.Name] = p
		}
		if len(pods) != n {
			return fmt.Errorf("there are %d pods, want %d", len(pods), n)
		}
		return nil
	})
	return pods
}

// podRange returns the range of the pods of a node.
func (l *lab) podRange(node string) string {
	l.t.Helper()
	var n v1.Node
	if err := get(&n, "node", node); err != nil {
		l.t.Fatal(err)
	}
	return n.Spec.PodCIDR
}

func ready(p v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
