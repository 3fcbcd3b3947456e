package vm

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

	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/internal/testkit/archive"
	"porthole.dev/porthole/internal/testkit/debian"
)

const (
	// limit bounds the whole test, without KVM.
	limit = 55 * time.Minute
	// scale is the cluster's --time-scale.
	scale = "10"
	// The machine's. QEMU has taken 3.3 GB with two Windows nodes that start.
	memory     = "10G"
	processors = 2
	diskSize   = "12G"
)

// TestVM runs the archive's cluster on a machine with systemd and cgroup v2 alone, restarts the machine, and
// brings the cluster up again.
func TestVM(t *testing.T) {
	if os.Getenv("PORTHOLE_VM") == "" {
		t.Skip("boots a virtual machine: `make test-vm`")
	}
	if os.Geteuid() != 0 {
		t.Fatal("making a root file system needs root")
	}
	v := newVM(t)
	v.boot()
	v.step("the machine", 5*time.Minute, kindOfMachine)
	v.step("up", 25*time.Minute, v.up())
	v.step("sample", 15*time.Minute, sample)
	v.step("limits and figures", 20*time.Minute, v.lab("TestMemoryLimit|TestTop"))
	v.step("eviction", 25*time.Minute, v.lab("TestWindowsEviction"))
	v.reboot()
	v.step("up after a reboot", 25*time.Minute, v.up())
	v.step("sample after a reboot", 15*time.Minute, sample)
	v.step("down", 5*time.Minute, "cd /porthole && ./porthole down --purge\n"+nothingLeft)
}

// kindOfMachine fails unless the machine is what the test says.
const kindOfMachine = `set -e
uname -r
[ "$(cat /proc/1/comm)" = systemd ]
[ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]
if grep '^cgroup ' /proc/mounts; then exit 1; fi
cat /sys/fs/cgroup/cgroup.controllers`

// nothingLeft fails if a cluster left cgroups, namespaces, mounts or processes.
const nothingLeft = `set -e
left() { if grep -E "${1:-.}"; then exit 1; fi; }
find /sys/fs/cgroup -name '*porthole*' | left
ls -A /var/run/netns 2>/dev/null | left
left porthole </proc/mounts
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | left 'porthol[e]|containerd|wineserve[r]|kube[-l]'`

const (
	// windowsMemory is the memory of a Windows node, small enough for one pod to use it up.
	windowsMemory = "4Gi"
	sample        = "cd /src && " + slow.Variable + "=" + scale + " tools/sample /var/lib/porthole"
)

// windowsNodes is how many Windows nodes the cluster has. Without KVM it is one: with two the second was not Ready
// after six minutes, because what both do while idle takes all of the processors.
func (m *machine) windowsNodes() int {
	if m.slow {
		return 1
	}
	return 2
}

// up is a script that brings the cluster up.
func (m *machine) up() string {
	return fmt.Sprintf("cd /porthole && ./porthole up --time-scale %s --windows-nodes %d --windows-memory %s",
		scale, m.windowsNodes(), windowsMemory)
}

// lab is a script that runs tests of test/lab on the cluster.
func (m *machine) lab(tests string) string {
	return fmt.Sprintf("cd /src/test/lab && %s=%s PORTHOLE_LAB_NODES=%d PORTHOLE_LAB_MEMORY=%s "+
		"PORTHOLE_LAB_DIR=/var/lib/porthole ./lab.test -test.v -test.run '^(%s)$'",
		slow.Variable, scale, m.windowsNodes(), windowsMemory, tests)
}

// vm is the machine of a test.
type vm struct {
	t       *testing.T
	ctx     context.Context
	options options
	*machine
	id string // of the boot
}

// newVM makes the machine's disk: Debian, the archive, and what runs the tests.
func newVM(t *testing.T) *vm {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	base, err := os.MkdirTemp("/var/tmp", "porthole-vm-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })

	root := filepath.Join(base, "root")
	must(t, debian.Bootstrap(root, "trixie", packages...))
	unpacked, _, err := archive.Unpack("../..", base)
	must(t, err)
	agent, tests := filepath.Join(base, "agent"), filepath.Join(base, "lab.test")
	must(t, build("build", "-o", agent, "./test/vm/agent"))
	must(t, build("test", "-c", "-o", tests, "./test/lab"))
	must(t, furnish(root, agent, map[string]string{unpacked: "porthole", tests: "src/test/lab/lab.test",
		"../../tools/sample": "src/tools/sample", "../../samples": "src/samples"}))
	must(t, os.Symlink("/porthole", filepath.Join(root, "src/bin")))

	v := &vm{t: t, ctx: ctx}
	v.options = options{disk: filepath.Join(base, "disk"), memory: memory, processors: processors}
	v.options.kernel, v.options.initrd, err = kernelOf(root)
	must(t, err)
	must(t, makeDisk(v.options.disk, root, diskSize))
	return v
}

// build runs the go tool at the repository's root.
func build(arguments ...string) error {
	c := exec.Command("go", arguments...)
	c.Dir = "../.."
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(arguments, " "), err, out)
	}
	return nil
}

// boot starts the machine, and waits until it runs scripts.
func (v *vm) boot() {
	v.t.Helper()
	began := time.Now()
	m, err := boot(v.ctx, v.options)
	must(v.t, err)
	v.machine = m
	v.t.Cleanup(m.stop)
	v.id, err = m.answers(v.ctx, 10*time.Minute, "")
	must(v.t, err)
	v.t.Logf("boots in %.0f s", time.Since(began).Seconds())
}

// reboot has systemd restart the machine.
func (v *vm) reboot() {
	v.t.Helper()
	began := time.Now()
	_ = v.run(v.ctx, "systemctl reboot", new(bytes.Buffer)) // the connection may end before the answer
	id, err := v.answers(v.ctx, 10*time.Minute, v.id)
	must(v.t, err)
	v.id = id
	v.t.Logf("restarts in %.0f s", time.Since(began).Seconds())
}

// step runs a script as a subtest; the steps after one that fails are not run.
func (v *vm) step(name string, limit time.Duration, script string) {
	v.t.Helper()
	ok := v.t.Run(name, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(v.ctx, limit)
		defer cancel()
		began := time.Now()
		var out bytes.Buffer
		err := v.run(ctx, script, &out)
		t.Logf("%.0f s\n%s", time.Since(began).Seconds(), out.String())
		must(t, err)
	})
	if !ok {
		v.t.FailNow()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
