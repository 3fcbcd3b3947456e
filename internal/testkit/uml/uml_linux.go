package uml

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// Where the package puts the kernel and its modules.
const (
	kernel  = "/usr/bin/linux.uml"
	modules = "/usr/lib/uml/modules"
)

// Missing returns what Run lacks on this machine, in words for a test that is skipped; "" if nothing.
func Missing() string {
	if os.Getuid() != 0 {
		return "the files of this machine become the kernel's, which needs root"
	}
	if _, err := os.Stat(kernel); err != nil {
		return "Debian's package user-mode-linux is not installed"
	}
	if processor, err := os.ReadFile("/proc/cpuinfo"); err == nil && bytes.Contains(processor, []byte(" amx_tile ")) {
		return "user-mode Linux has no room for the registers of this processor (AMX): " +
			"its first program ends by SIGSEGV in put_fp_registers (seen with Debian's 6.1um4)"
	}
	return ""
}

// Options of Run.
type Options struct {
	// Memory is how much the kernel has, such as 2G. The machine gives it what is used only.
	Memory string
	// Swap is the size of a swap space, such as 256M; none if it is empty.
	Swap string
	// Script is what bash runs as root. It sees the machine's files, and what it changes of them is gone at its end.
	// /dev, /proc, /run and /sys are its own, and TMPDIR is a folder in memory.
	Script string
	// Systemd makes systemd the first process, with none of the machine's own units. The script is a unit of it.
	Systemd bool
}

// boot is what the kernel runs first. The root is the machine's, below a layer in memory.
const boot = `#!/bin/bash
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/upper /mnt/work /mnt/root
insmod MODULES/$(uname -r)/kernel/fs/overlayfs/overlay.ko
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root || echo "no layer over the machine's files"
cd /mnt/root
mkdir -p proc sys dev run lib/modules
ln -sfn MODULES/$(uname -r) lib/modules/
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs devtmpfs dev
mount -t tmpfs tmpfs run
mkdir -p dev/pts dev/shm run/lock run/netns run/porthole-old run/tmp
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -sfn /proc/self/fd dev/fd
mount -t cgroup2 cgroup2 sys/fs/cgroup
sed 's/^bogomips/cpu MHz\t\t: 1000.000\n&/' /proc/cpuinfo >run/cpuinfo # upstream's kubelet does not start without
mount --bind run/cpuinfo proc/cpuinfo
pivot_root . run/porthole-old
umount -l /run/porthole-old
mount --make-rshared /
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/run/tmp
cd /
hostname uml
ip link set lo up
SWAP
LAST
`

// The end of boot: the script alone, or systemd with the script as a unit.
const (
	runScript = `echo "+cpu +io +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/system.slice # programs have a cgroup of their own, as where systemd starts them
echo $$ >/sys/fs/cgroup/system.slice/cgroup.procs
bash -c "$(echo SCRIPT | base64 -d)" </dev/null
echo "uml: exit $?"
sync
busybox poweroff -f`
	runSystemd = `rm -rf /etc/systemd/system
mkdir -p /etc/systemd/system/multi-user.target.wants
for unit in MASKED; do ln -s /dev/null /etc/systemd/system/$unit; done
echo SCRIPT | base64 -d > /run/tmp/script
cat > /run/tmp/main <<END
export HOME=$HOME TMPDIR=$TMPDIR PATH=$PATH
cd /
bash /run/tmp/script </dev/null
echo "uml: exit \$?"
sync
busybox poweroff -f
END
cat > /etc/systemd/system/uml-script.service <<END
[Unit]
After=dbus.service
Wants=dbus.service
[Service]
Type=exec
ExecStart=/bin/bash /run/tmp/main
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TimeoutStartSec=infinity
TasksMax=infinity
LimitNOFILE=1048576
END
ln -s ../uml-script.service /etc/systemd/system/multi-user.target.wants/
exec env -i container=uml PATH=$PATH /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal-or-kmsg --show-status=no`
)

// masked are units of the distribution that find nothing to do here, or wait for what there is not.
var masked = []string{"systemd-sysctl.service", "systemd-modules-load.service", "systemd-remount-fs.service",
	"systemd-udevd.service", "systemd-udev-trigger.service",
	"systemd-udevd-kernel.socket", "systemd-udevd-control.socket", "systemd-tmpfiles-setup-dev.service",
	"systemd-tmpfiles-setup.service", "systemd-timesyncd.service",
	"systemd-logind.service", "getty.target", "console-getty.service", "systemd-update-utmp.service",
	"systemd-update-utmp-runlevel.service", "systemd-sysusers.service",
	"systemd-binfmt.service", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "dev-hugepages.mount",
	"dev-mqueue.mount", "systemd-machine-id-commit.service",
	"systemd-firstboot.service", "systemd-random-seed.service", "proc-sys-fs-binfmt_misc.automount",
	"systemd-journal-flush.service", "systemd-pstore.service",
	"modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@efi_pstore.service", "modprobe@fuse.service",
	"modprobe@loop.service", "modprobe@drm.service",
	"tmp.mount", "systemd-user-sessions.service", "remote-fs.target", "timers.target"}

// exitLine is the line with which the guest tells the script's end on its console.
var exitLine = regexp.MustCompile(`(?m)^uml: exit (\d+)\r?$`)

// Run boots a kernel, runs the script, and returns what both printed. The error tells a script that failed, or a
// kernel that did not come to its end before ctx did: then all of it is ended.
func Run(ctx context.Context, o Options) (string, error) {
	dir, err := os.MkdirTemp("", "uml-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)

	first := filepath.Join(dir, "init")
	if err := os.WriteFile(first, []byte(o.init()), 0o755); err != nil {
		return "", err
	}

	args := []string{"mem=" + o.Memory, "rootfstype=hostfs", "rootflags=/", "ro", "init=" + first, "con=null",
		"con0=null,fd:1", "quiet", "loglevel=1"}
	if o.Swap != "" {
		disk := filepath.Join(dir, "swap")
		if out, err := exec.Command("truncate", "-s", o.Swap, disk).CombinedOutput(); err != nil {
			return "", fmt.Errorf("making the swap space: %w: %s", err, out)
		}
		args = append(args, "ubd0="+disk)
	}

	runtime.LockOSThread() // the kernel ends with the thread that started it
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, kernel, args...)
	cmd.Dir = dir
	// the kernel's processes are ended together
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()

	text := clean(out.Bytes())
	if ctx.Err() != nil {
		return text, fmt.Errorf("the kernel was ended: %w", context.Cause(ctx))
	}
	found := exitLine.FindStringSubmatch(text)
	switch {
	case found == nil:
		return text, errors.Join(errors.New("the kernel did not come to the script's end"), err)
	case found[1] != "0":
		return text, fmt.Errorf("the script ended with %s", found[1])
	}
	return text, nil
}

func (o Options) init() string {
	swap := ""
	if o.Swap != "" {
		swap = "mkswap /dev/ubda >/dev/null && swapon /dev/ubda"
	}
	last := runScript
	if o.Systemd {
		last = strings.ReplaceAll(runSystemd, "MASKED", strings.Join(masked, " "))
	}
	last = strings.ReplaceAll(last, "SCRIPT", encode(o.Script))
	return strings.NewReplacer("MODULES", modules, "SWAP", swap, "LAST", last).Replace(boot)
}

// clean takes carriage returns and the kernel's own lines of the start out of what was printed.
func clean(out []byte) string {
	var b strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		b.WriteString(strings.TrimRight(lines.Text(), "\r"))
		b.WriteByte('\n')
	}
	return b.String()
}

func encode(script string) string { return base64.StdEncoding.EncodeToString([]byte(script)) }
