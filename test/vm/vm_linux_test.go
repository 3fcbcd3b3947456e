package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// TestVM runs the archive's cluster on a machine with systemd and cgroup v2 alone. The machine loses power while
// the cluster comes up, and is restarted when it is up: each time the cluster comes up again.
func TestVM(t *testing.T) {
	v := newVM(t, nil, clusterFiles)
	v.boot()
	v.step("systemd and cgroup v2", time.Minute, firstProcess("systemd")+onlyCgroup2)
	v.cutOff(v.up(), "node lin01 is Ready")
	v.step("up after a power failure", 25*time.Minute, v.up()+" | tee /up\ngrep 'was not shut down' /up")
	v.step("sample", 15*time.Minute, sample)
	v.step("limits and figures", 20*time.Minute, v.lab("TestMemoryLimit|TestTop"))
	v.step("eviction", 25*time.Minute, v.lab("TestWindowsEviction"))
	v.reboot()
	v.step("up after a reboot", 25*time.Minute, v.up()+" | tee /up\nif grep 'was not shut down' /up; then exit 1; fi")
	v.step("sample after a reboot", 15*time.Minute, sample)
	v.step("down", 5*time.Minute, down)

	v.stop()
	v.options.init = plainInit
	v.boot()
	v.step("cgroup v2 without systemd", time.Minute, firstProcess(filepath.Base(plainInit))+onlyCgroup2)
	v.step("up without systemd", 25*time.Minute, v.up())
	v.step("sample without systemd", 15*time.Minute, sample)
	v.step("a second cluster comes and goes", 25*time.Minute, secondCluster)
	v.step("sample beside it", 15*time.Minute, sample)
	v.step("down without systemd", 5*time.Minute, down)
}

// firstProcess is a script that fails unless the machine's first process has that name.
func firstProcess(name string) string {
	return fmt.Sprintf("set -e\ncat /proc/1/comm\n[ \"$(cat /proc/1/comm)\" = %s ]\n", name)
}

// onlyCgroup2 fails unless the machine has cgroup v2 alone.
const onlyCgroup2 = `set -e
uname -r
[ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]
if grep '^cgroup ' /proc/mounts; then exit 1; fi
cat /sys/fs/cgroup/cgroup.controllers`

// secondCluster is a script that brings a second cluster up and down. It fails if that changes a process or a
// container of the first.
const secondCluster = `set -e
cd /porthole
first() {
	./porthole status -o json | grep '"pid"'
	path='{range .items[*]}{.metadata.name} {.status.containerStatuses[*].containerID} '
	path+='{.status.containerStatuses[*].restartCount}{"\n"}{end}'
	./porthole kubectl get pods -A -o jsonpath="$path"
}
first >/before
./porthole up --name two --time-scale ` + scale + ` --windows-nodes 1 --windows-memory ` + windowsMemory + `
first | diff /before -
ls -d /sys/fs/cgroup/porthole*
./porthole kubectl --name two get pods -A -o wide
./porthole down --name two --purge
first | diff /before -
if ls -d /sys/fs/cgroup/porthole.two; then exit 1; fi
`

// down is a script that takes the cluster down, and fails if anything is left of it. It flushes the disk, so that a
// power failure brings no file back.
const down = "set -e\ncd /porthole\n./porthole down --purge\nsync\n" + nothingLeft

// nothingLeft fails if a cluster left cgroups, namespaces, mounts or processes. The brackets keep grep from finding its
// own command line.
const nothingLeft = `set -e
left() { if grep -E "${1:-.}"; then exit 1; fi; }
find /sys/fs/cgroup -name '*porthole*' | left
ls -A /var/run/netns 2>/dev/null | left
left porthole </proc/mounts
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | left 'porthol[e]|container[d]|wineserve[r]|kube[-l]'`

const (
	// windowsMemory is the memory of a Windows node, small enough for one pod to use it up.
	windowsMemory = "4Gi"
	sample        = "cd /src && " + slow.Variable + "=" + scale + " tools/sample /var/lib/porthole"
)

// windowsNodes is the number of Windows nodes of the cluster. Without KVM it is one: what idle nodes do takes most of
// two processors there, and of two the second was not Ready after six minutes on a slow machine.
func (m *machine) windowsNodes() int {
	if m.slow {
		return 1
	}
	return 2
}

// up is a script that brings the cluster up.
func (m *machine) up() string {
	return fmt.Sprintf("set -e -o pipefail\ncd /porthole\n"+
		"./porthole up --time-scale %s --windows-nodes %d --windows-memory %s",
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

// newVM makes the machine's disk: Debian with further packages, and files. These are what files makes in the folder
// base: keys are paths of this machine, values the places below the root of the virtual one.
func newVM(t *testing.T, further []string, files func(base string) (map[string]string, error)) *vm {
	if os.Getenv("PORTHOLE_VM") == "" {
		t.Skip("boots a virtual machine: `make test-vm`")
	}
	if os.Geteuid() != 0 {
		t.Fatal("making a root file system needs root")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	base, err := os.MkdirTemp("/var/tmp", "porthole-vm-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })

	root, agent := filepath.Join(base, "root"), filepath.Join(base, "agent")
	must(t, debian.Bootstrap(root, "trixie", append(further, packages...)...))
	must(t, build("build", "-o", agent, "./test/vm/agent"))
	copied, err := files(base)
	must(t, err)
	must(t, furnish(root, agent, copied))

	v := &vm{t: t, ctx: ctx}
	v.options = options{root: root, disk: "/disk", memory: memory, processors: processors}
	v.options.kernel, v.options.initrd, err = kernelOf(root)
	must(t, err)
	disk := filepath.Join(base, "disk") // not below root while it is filled with that
	must(t, makeDisk(disk, root, diskSize))
	must(t, os.Rename(disk, filepath.Join(root, v.options.disk)))
	return v
}

// clusterFiles returns the unpacked archive and the tests that run in the virtual machine, for newVM.
func clusterFiles(base string) (map[string]string, error) {
	unpacked, _, err := archive.Unpack("../..", base)
	if err != nil {
		return nil, err
	}
	tests, bin := filepath.Join(base, "lab.test"), filepath.Join(base, "bin")
	if err := build("test", "-c", "-o", tests, "./test/lab"); err != nil {
		return nil, err
	}
	if err := os.Symlink("/porthole", bin); err != nil {
		return nil, err
	}
	return map[string]string{unpacked: "porthole", bin: "src/bin", tests: "src/test/lab/lab.test",
		"../../tools/sample": "src/tools/sample", "../../samples": "src/samples"}, nil
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

// cutOff runs a script until it has printed a text. Then it cuts the machine's power, and boots it again.
func (v *vm) cutOff(script, text string) {
	v.t.Helper()
	out := &outputWatch{text: text, seen: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- v.run(v.ctx, script, out) }()
	select {
	case <-out.seen:
	case err := <-ended:
		v.t.Fatalf("it has ended before it printed %q: %v\n%s", text, err, out.all)
	}

	v.stop()
	<-ended
	v.boot()
}

// outputWatch keeps what a script prints, and closes seen once that contains the text.
type outputWatch struct {
	all  []byte
	text string
	seen chan struct{}
	once sync.Once
}

func (p *outputWatch) Write(data []byte) (int, error) {
	p.all = append(p.all, data...)
	if bytes.Contains(p.all, []byte(p.text)) {
		p.once.Do(func() { close(p.seen) })
	}
	return len(data), nil
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
		if err != nil {
			t.Fatalf("%v\nThe console says\n%s", err, v.consoleEnd())
		}
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
