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
	"time"

	"porthole.dev/porthole/internal/testkit/loopback"
	"porthole.dev/porthole/internal/testkit/wait"
)

// processor is QEMU's -cpu. With SMAP, SMEP or protection keys the guest's kernel faults under the TCG of QEMU
// 7.2 when a Wine program returns from a signal handler ("supervisor read access in user mode").
const processor = "max,smap=off,smep=off,pku=off"

// machine is a virtual machine that runs.
type machine struct {
	qemu    *exec.Cmd
	ended   chan error
	address string // of the agent, on loopback
	console string // file with what the kernel and systemd print
	slow    bool   // it runs without KVM
}

// options of boot.
type options struct {
	// disk is a file with the root file system; kernel and initrd are files of Debian's kernel.
	disk, kernel, initrd string
	memory               string // such as 8G
	processors           int
}

// boot starts a machine. Its end is that of ctx, or stop.
func boot(ctx context.Context, o options) (*machine, error) {
	port, err := loopback.FreePort()
	if err != nil {
		return nil, err
	}
	accelerator, slow, err := accelerator()
	if err != nil {
		return nil, err
	}

	address := fmt.Sprintf("127.0.0.1:%d", port)
	m := &machine{address: address, console: o.disk + ".console", slow: slow, ended: make(chan error, 1)}
	m.qemu = exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-display", "none",
		"-machine", "q35", "-accel", accelerator, "-cpu", processor, "-smp", fmt.Sprint(o.processors), "-m", o.memory,
		"-kernel", o.kernel, "-initrd", o.initrd, "-append", "root=/dev/vda rw console=ttyS0 net.ifnames=0 panic=-1 quiet",
		"-drive", "if=virtio,format=raw,cache=unsafe,file="+o.disk, "-device", "virtio-rng-pci",
		"-netdev", "user,id=net,restrict=on,hostfwd=tcp:"+address+"-10.0.2.15:7000",
		"-device", "virtio-net-pci,netdev=net", "-serial", "file:"+m.console)

	said := &strings.Builder{}
	m.qemu.Stderr = said
	if err := m.qemu.Start(); err != nil {
		return nil, fmt.Errorf("QEMU: %w: `tools/deps vm` installs it", err)
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

// accelerator returns QEMU's -accel, and whether it is the slow one. A /dev/kvm alone is not enough: a virtual
// machine can have one without vmx and svm, which runs only kernels that are made for it.
func accelerator() (name string, slow bool, err error) {
	processor, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", false, err
	}
	if _, err := os.Stat("/dev/kvm"); err == nil && hardware.Match(processor) {
		return "kvm", false, nil
	}
	return "tcg,thread=multi", true, nil
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
		console, _ := os.ReadFile(m.console) // for the error only
		err = fmt.Errorf("%w: its console says\n%s", err, console[max(0, len(console)-3000):])
	}
	return id, err
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

// kernelOf returns the paths of the one kernel that a root file system has, and of its initrd.
func kernelOf(root string) (kernel, initrd string, err error) {
	for pattern, to := range map[string]*string{"boot/vmlinuz-*": &kernel, "boot/initrd.img-*": &initrd} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		if len(found) != 1 {
			return "", "", fmt.Errorf("%s has %d files %s, want one", root, len(found), pattern)
		}
		*to = found[0]
	}
	return kernel, initrd, nil
}
