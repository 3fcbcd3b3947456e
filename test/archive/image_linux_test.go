package archive

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/archive"
	"porthole.dev/porthole/internal/testkit/loopback"
	"porthole.dev/porthole/internal/testkit/wait"
)

// podman is Podman with files of its own, so that no image or container of the machine's is seen.
type podman struct {
	t   *testing.T
	dir string
}

func (p podman) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), limit)
	defer cancel()
	args = append([]string{"--root", filepath.Join(p.dir, "root"), "--runroot", filepath.Join(p.dir, "run")}, args...)
	out, err := exec.CommandContext(ctx, "podman", args...).CombinedOutput()
	return string(out), err
}

// TestImage runs a cluster from the image of a release alone: the API server answers on a port of the machine, with
// the kubeconfig that lies on the volume, and the container ends when it is asked to.
func TestImage(t *testing.T) {
	if os.Getenv("PORTHOLE_ARCHIVE") == "" {
		t.Skip("packs and unpacks 900 MB, and brings clusters up: `make test-archive`")
	}
	base, err := os.MkdirTemp("/var/tmp", "porthole-image-")
	must(t, err)
	p := podman{t, base}
	t.Cleanup(func() {
		if out, err := p.run("system", "reset", "--force"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		_ = os.RemoveAll(base)
	})
	file, image, err := archive.Image("../..", base)
	must(t, err)
	if out, err := p.run("load", "-i", file); err != nil {
		t.Fatalf("loading the image: %v\n%s", err, out)
	}

	for _, cgroups := range []string{"private", "host"} {
		t.Run(cgroups, func(t *testing.T) { runImage(podman{t, base}, image, cgroups) })
	}
}

// runImage runs the image in the container's own cgroup namespace, or in the machine's.
func runImage(p podman, image, cgroups string) {
	t := p.t
	port, err := loopback.FreePort()
	must(t, err)
	volume, name := filepath.Join(p.dir, "volume-"+cgroups), "porthole-"+cgroups
	must(t, os.Mkdir(volume, 0o700))
	start := time.Now()
	out, err := p.run(append([]string{"run", "--detach", "--name", name, "--privileged", "--cgroupns", cgroups,
		"--publish", fmt.Sprintf("127.0.0.1:%d:6443", port), "--volume", volume + ":/var/lib/porthole"},
		append(limits(t), image)...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wait.True(t, limit, "the cluster of the image is up, or its container has ended", func() bool {
		out, _ = p.run("logs", name)
		state, _ := p.run("inspect", "--format", "{{.State.Status}}", name)
		return strings.Contains(out, "the cluster stays") || strings.TrimSpace(state) == "exited"
	})
	t.Logf("%.1f s, load %s\n%s", time.Since(start).Seconds(), load(), out)

	kubeconfig, err := os.ReadFile(filepath.Join(volume, "kubeconfig"))
	must(t, err)
	ours := filepath.Join(p.dir, "kubeconfig-"+cgroups)
	must(t, os.WriteFile(ours,
		bytes.ReplaceAll(kubeconfig, []byte("127.0.0.1:6443"), fmt.Appendf(nil, "127.0.0.1:%d", port)), 0o600))
	nodes, err := exec.Command("../../bin/bundle/kube", "kubectl", "--kubeconfig", ours, "get", "nodes").
		CombinedOutput()
	if err != nil || strings.Count(string(nodes), " Ready ") != 3 {
		t.Errorf("%v: the nodes are\n%s", err, nodes)
	}

	if out, err := p.run("stop", "--time", "120", name); err != nil {
		t.Errorf("stop: %v\n%s", err, out)
	}
	code, err := p.run("inspect", "--format", "{{.State.ExitCode}}", name)
	if out, _ := p.run("logs", name); err != nil || strings.TrimSpace(code) != "0" {
		t.Errorf("it ended with %s, %v\n%s", code, err, out)
	}
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), volume) {
		t.Errorf("mounts are left:\n%s", mounts)
	}
}

// limits are for machines on which even root may not raise a limit, as Podman does by itself.
func limits(t *testing.T) (flags []string) {
	t.Helper()
	for name, which := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC} {
		var now unix.Rlimit
		must(t, unix.Getrlimit(which, &now))
		n := min(now.Max, 16384) // Podman lowers its own to the largest id of a process
		flags = append(flags, "--ulimit", fmt.Sprintf("%s=%d:%d", name, n, n))
	}
	return flags
}
