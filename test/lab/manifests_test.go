package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestManifests applies the objects of `porthole manifests` to the cluster: a check names what is missing before and
// nothing after, a second apply changes nothing, Windows nodes get no pod of the DaemonSet, and the rights of its
// account and of joining machines are exact.
func TestManifests(t *testing.T) {
	// Linux nodes of a local cluster have a service porthole-routes, as joined ones do: the DaemonSet leaves nodes
	// with this label out.
	kubectl(t, "label", "node", "lin01", "porthole.dev/routes=service")
	t.Cleanup(func() { kubectl(t, "label", "node", "lin01", "porthole.dev/routes-") })

	if out := checkManifests(t, 1); !strings.Contains(out, "DaemonSet kube-system/porthole-routes is missing") ||
		isShared(out) {
		t.Errorf("before: %s", out)
	}
	manifest, err := command(time.Minute, porthole, "manifests", "--kubeconfig", adminConf())
	if err != nil {
		t.Fatal(err)
	}
	// What the cluster had before stays.
	own := slices.DeleteFunc(strings.Split(manifest, "---\n"), isShared)
	apply(t, strings.Join(own, "---\n"))
	if out := checkManifests(t, 0); !strings.Contains(out, "the cluster has all") {
		t.Errorf("after: %s", out)
	}
	file := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", file) // kubectl's own annotation on what was there
	again := strings.Split(strings.TrimSpace(kubectl(t, "apply", "-f", file)), "\n")
	if len(again) != strings.Count(manifest, "---\n") ||
		slices.ContainsFunc(again, func(line string) bool { return !strings.HasSuffix(line, " unchanged") }) {
		t.Errorf("a second apply changed: %q", again)
	}

	t.Run("rights", testManifestRights)
	wait.NoError(t, time.Minute, "the DaemonSet to be seen by its controller", func() error {
		var set appsv1.DaemonSet
		object(t, &set, "-n", "kube-system", "daemonset", "porthole-routes")
		if s := set.Status; s.ObservedGeneration != set.Generation || s.DesiredNumberScheduled != 0 ||
			s.NumberMisscheduled != 0 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	kubectl(t, "delete", "clusterrolebinding", "porthole:linux-routes")
	if out := checkManifests(t, 1); strings.Count(out, "wrong") != 1 ||
		!strings.Contains(out, "ClusterRoleBinding porthole:linux-routes is missing") {
		t.Errorf("without a binding: %s", out)
	}
}

// isShared reports whether a text names an object that a local cluster has from its start, because machines can join
// it: all but those of the DaemonSet.
func isShared(text string) bool {
	return slices.ContainsFunc([]string{"porthole:node-proxier", "porthole:joining", "porthole:config", "cluster.yaml",
		"ConfigMap"}, func(name string) bool {
		return strings.Contains(text, name)
	})
}

func adminConf() string { return filepath.Join(dir, "kubeconfig") }

// checkManifests runs the check, which must end with an exit code.
func checkManifests(t *testing.T, code int) string {
	t.Helper()
	out, err := command(time.Minute, porthole, "manifests", "--check", "--kubeconfig", adminConf())
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code {
		t.Errorf("exit code %d, want %d: %v %s", got, code, err, out)
	}
	return out
}

// testManifestRights compares what the API server allows with what the programs need.
func testManifestRights(t *testing.T) {
	list := func(args ...string) string {
		var rules []string
		for _, line := range strings.Split(kubectl(t,
			append([]string{"auth", "can-i", "--list", "--no-headers"}, args...)...), "\n") {
			words := strings.Fields(line)
			// what everybody may
			if len(words) > 1 && !strings.HasPrefix(words[0], "[") && !strings.HasPrefix(words[0], "self") {
				rules = append(rules, words[0]+" "+strings.Join(words[2:], " "))
			}
		}
		slices.Sort(rules)
		return strings.Join(rules, "\n")
	}
	if got, want := list("--as=system:serviceaccount:kube-system:porthole-routes", "--as-group=system:serviceaccounts",
		"--as-group=system:authenticated"),
		"events [] [create patch]\nevents.events.k8s.io [] [create patch]\nnodes [] [get list watch]"; got != want {
		t.Errorf("the DaemonSet's account may do\n%s\nwant\n%s", got, want)
	}

	joining := []string{"--as=system:bootstrap:abcdef", "--as-group=system:bootstrappers:kubeadm:default-node-token",
		"-n", "kube-system"}
	node := []string{"--as=system:node:win01", "--as-group=system:nodes"}
	for _, c := range []struct {
		as      []string
		what    string
		allowed bool
	}{
		{joining, "get configmaps/porthole", true}, {joining, "list configmaps", false},
		{joining, "update configmaps/porthole", false}, {joining, "list nodes", true}, {joining, "watch nodes", false},
		{joining, "list pods", false},
		{node, "list services", true}, {node, "watch endpointslices.discovery.k8s.io", true},
		{node, "list nodes", true},
		{node, "delete nodes", false}, {node, "update services", false}, {node, "list secrets", false},
	} {
		out, err := kubectlErr(append(append([]string{"auth", "can-i"}, strings.Fields(c.what)...), c.as...)...)
		if got := strings.HasPrefix(strings.TrimSpace(out), "yes"); got != c.allowed {
			t.Errorf("%s may %s: %v, want %v: %v", c.as[0], c.what, got, c.allowed, err)
		}
	}
}
