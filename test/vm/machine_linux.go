package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/loopback"
	"porthole.dev/porthole/internal/testkit/wait"
)

// processor is QEMU's -cpu. With SMAP, SMEP or protection keys the guest's kernel faults under the TCG of QEMU
// 7.2 when a Wine program returns from a signal handler ("supervisor read access in user mode"). QEMU 10 was not
// tried with them.
const processor = "max,smap=off,smep=off,pku=off"

// machine is a virtual machine that runs.
type machine struct {
	qemu    *exec.Cmd
	ended   chan error
	address string // of the agent, on loopback
	console string // file of this machine with what the kernel and systemd print
	slow    bool   // it runs without KVM
}

// options of boot.
type options struct {
	// root is a folder of this machine with Debian and QEMU. QEMU runs in it (chroot): the other paths are below it.
	root string
	// disk is a file with the root file system; kernel and initrd are files of Debian's kernel.
	disk, kernel, initrd string
	init                 string // path of the first process; empty: /sbin/init
	memory               string // such as 8G
	processors           int
}

// boot starts a machine. Its end is that of ctx, or stop.
func boot(ctx context.Context, o options) (*machine, error) {
	port, err := loopback.FreePort()
	if err != nil {
		return nil, err
	}
	accelerator, slow, err := accelerator(o.root)
	if err != nil {
		return nil, err
	}

	address := fmt.Sprintf("127.0.0.1:%d", port)
	line := "root=/dev/vda rw console=ttyS0 net.ifnames=0 panic=-1 quiet"
	if o.init != "" {
		line += " init=" + o.init
	}
	m := &machine{address: address, console: filepath.Join(o.root, console), slow: slow, ended: make(chan error, 1)}
	m.qemu = exec.CommandContext(ctx, "/usr/bin/qemu-system-x86_64", "-nodefaults", "-display", "none",
		"-machine", "q35", "-accel", accelerator, "-cpu", processor, "-smp", fmt.Sprint(o.processors), "-m", o.memory,
		"-kernel", o.kernel, "-initrd", o.initrd, "-append", line,
		"-drive", "if=virtio,format=raw,cache=unsafe,file="+o.disk, "-device", "virtio-rng-pci",
		"-netdev", "user,id=net,restrict=on,hostfwd=tcp:"+address+"-10.0.2.15:7000",
		"-device", "virtio-net-pci,netdev=net", "-serial", "file:"+console)
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Chroot: o.root}

	said := &strings.Builder{}
	m.qemu.Stderr = said
	if err := m.qemu.Start(); err != nil {
		return nil, fmt.Errorf("QEMU: %w", err)
	}
	go func() {
		if err := m.qemu.Wait(); err != nil {
			m.ended <- fmt.Errorf("QEMU: %w: %s", err, said)
		}
		close(m.ended)
	}()
	return m, nil
}

// stop ends the machine as a power cut does.
func (m *machine) stop() {
	_ = m.qemu.Process.Kill() // it may have ended
	for range m.ended {       // killed is not an error
	}
}

// console is the path below options.root of what the machine's kernel and systemd print.
const console = "/console"

// accelerator returns QEMU's -accel, and whether it is the slow one. A /dev/kvm alone is not enough: a virtual
// machine can have one without vmx and svm, which runs only kernels that are made for it. QEMU finds it in root.
func accelerator(root string) (name string, slow bool, err error) {
	processor, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", false, err
	}
	var kvm unix.Stat_t
	if err := unix.Stat("/dev/kvm", &kvm); err != nil || !hardware.Match(processor) {
		return "tcg,thread=multi", true, nil
	}
	err = unix.Mknod(filepath.Join(root, "dev/kvm"), unix.S_IFCHR|0o600, int(kvm.Rdev))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return "", false, fmt.Errorf("/dev/kvm for QEMU: %w", err)
	}
	return "kvm", false, nil
}

var hardware = regexp.MustCompile(`(?m)^flags\s*:.* (vmx|svm)( |$)`)

// answers waits until the agent runs a script in a boot other than the one named, and returns the boot's name.
func (m *machine) answers(ctx context.Context, limit time.Duration, before string) (id string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ended error
	err = wait.For(ctx, limit, "the machine", func(ctx context.Context) error {
		select {
		case err := <-m.ended:
			ended = errors.Join(errors.New("the machine has ended"), err)
			cancel()
			return ended
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		var out strings.Builder
		if err := m.run(ctx, "cat /proc/sys/kernel/random/boot_id", &out); err != nil {
			return err
		}
		if id = strings.TrimSpace(out.String()); id == before {
			return errors.New("it has not restarted yet")
		}
		return nil
	})

	if ended != nil {
		err = ended
	}
	if err != nil {
		err = fmt.Errorf("%w: its console says\n%s", err, m.consoleEnd())
	}
	return id, err
}

// consoleEnd returns the last 6000 bytes that the machine's kernel and systemd have printed.
func (m *machine) consoleEnd() string {
	data, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-6000):])
}

// run has bash in the machine run a script as root, and copies what it prints.
func (m *machine) run(ctx context.Context, script string, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, "POST", "http://"+m.address+"/run", strings.NewReader(script))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(out, answer.Body); err != nil {
		return err
	}
	if exit := answer.Trailer.Get("Exit"); exit != "0" {
		return fmt.Errorf("it ended with %s", exit)
	}
	return nil
}

// kernelOf returns the paths, below root, of the one kernel that a root file system has, and of its initrd.
func kernelOf(root string) (kernel, initrd string, err error) {
	for pattern, to := range map[string]*string{"boot/vmlinuz-*": &kernel, "boot/initrd.img-*": &initrd} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		if len(found) != 1 {
			return "", "", fmt.Errorf("%s has %d files %s, want one", root, len(found), pattern)
		}
		*to = strings.TrimPrefix(found[0], root)
	}
	return kernel, initrd, nil
}
