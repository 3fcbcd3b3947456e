// Escape is a Windows program that makes system calls of Linux itself, which Wine does not notice, and tries ways out
// of what it runs in. It prints a line for each: its name, and "out" if the way is open, or the error of Linux that
// closed it. Its arguments are paths that must not be reachable. No way is gone to its end: a file that changes the
// machine is opened and not written.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

//go:uintptrescapes
//go:noescape
func linux(number, a, b, c, d, e, f uintptr) (result uintptr)

// System calls of amd64 (asm/unistd_64.h).
const (
	sysRead         = 0
	sysWrite        = 1
	sysOpen         = 2
	sysClose        = 3
	sysSocket       = 41
	sysConnect      = 42
	sysSendto       = 44
	sysRecvfrom     = 45
	sysGetuid       = 102
	sysSetuid       = 105
	sysSetgroups    = 116
	sysMknod        = 133
	sysPivot        = 155
	sysChroot       = 161
	sysMount        = 165
	sysUmount       = 166
	sysSwapoff      = 168
	sysReboot       = 169
	sysSethostname  = 170
	sysIopl         = 172
	sysSettime      = 164
	sysInitModule   = 175
	sysDeleteModule = 176
	sysKexec        = 246
	sysAddKey       = 248
	sysRequestKey   = 249
	sysKeyctl       = 250
	sysUnshare      = 272
	sysPerf         = 298
	sysOpenByHandle = 304
	sysFinitModule  = 313
	sysBpf          = 321
	sysUserfault    = 323
	sysIoUring      = 425
	sysOpenTree     = 428
	sysFsopen       = 430
	sysMountSetattr = 442
	sysSyslog       = 103
	sysClone3       = 435
)

const (
	writeOnly, pathOnly    = 1, 010000000
	newNS, newUser, newNet = 0x20000, 0x10000000, 0x40000000
)

// failed returns the number of the error of a call; 0 for success.
func failed(result uintptr) int {
	if n := int(result); n < 0 && n > -4096 {
		return -n
	}
	return 0
}

func c(s string) uintptr {
	b := append([]byte(s), 0)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

func at(b []byte) uintptr {
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

var kept [][]byte

func open(path string, flags uintptr) (uintptr, int) {
	fd := linux(sysOpen, c(path), flags, 0, 0, 0, 0)
	return fd, failed(fd)
}

// opened tries to open a file.
func opened(path string, flags uintptr) int {
	fd, err := open(path, flags)
	if err == 0 {
		linux(sysClose, fd, 0, 0, 0, 0, 0)
	}
	return err
}

// reads tries to read a byte of a file that is not zero.
func reads(path string) int {
	fd, err := open(path, 0)
	if err != 0 {
		return err
	}
	defer linux(sysClose, fd, 0, 0, 0, 0, 0)
	b := make([]byte, 64)
	n := linux(sysRead, fd, at(b), 64, 0, 0, 0)
	if err := failed(n); err != 0 {
		return err
	}
	if len(bytes.Trim(b[:n], "\x00")) == 0 {
		return 61 // ENODATA
	}
	return 0
}

func call(number uintptr, args ...uintptr) func() int {
	var a [6]uintptr
	copy(a[:], args)
	return func() int { return failed(linux(number, a[0], a[1], a[2], a[3], a[4], a[5])) }
}

func socket(family, kind, protocol uintptr) func() int {
	return func() int {
		fd := linux(sysSocket, family, kind, protocol, 0, 0, 0)
		if failed(fd) == 0 {
			linux(sysClose, fd, 0, 0, 0, 0, 0)
		}
		return failed(fd)
	}
}

// link asks the kernel by netlink to make a network device in this network namespace.
func link() int {
	fd := linux(sysSocket, 16, 3, 0, 0, 0, 0) // AF_NETLINK, SOCK_RAW, NETLINK_ROUTE
	if err := failed(fd); err != 0 {
		return err
	}

	name := "porthole-out\x00\x00\x00\x00"
	kind := "dummy\x00\x00\x00"
	attr := func(t uint16, data []byte) []byte {
		b := []byte{byte(4 + len(data)), 0, byte(t), byte(t >> 8)}
		b = append(b, data...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	body := make([]byte, 16)
	body = append(body, attr(3, []byte(name[:13]))...)
	body = append(body, attr(18, attr(1, []byte(kind[:6])))...)
	// RTM_NEWLINK, REQUEST|ACK|CREATE|EXCL
	m := []byte{byte(16 + len(body)), 0, 0, 0, 16, 0, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0}
	m = append(m, body...)
	if err := failed(linux(sysSendto, fd, at(m), uintptr(len(m)), 0, 0, 0)); err != 0 {
		return err
	}

	answer := make([]byte, 4096)
	n := linux(sysRecvfrom, fd, at(answer), 4096, 0, 0, 0)
	if err := failed(n); err != 0 {
		return err
	}
	return int(-*(*int32)(unsafe.Pointer(&answer[16])))
}

func connects(path string) int {
	fd := linux(sysSocket, 1, 1, 0, 0, 0, 0)
	if err := failed(fd); err != 0 {
		return err
	}
	defer linux(sysClose, fd, 0, 0, 0, 0, 0)
	address := append([]byte{1, 0}, path...)
	if !strings.HasPrefix(path, "\x00") {
		address = append(address, 0)
	}
	return failed(linux(sysConnect, fd, at(address), uintptr(len(address)), 0, 0, 0))
}

// strangers looks for processes of the machine: any that is neither Wine's nor a Windows program.
func strangers() int {
	for pid := 1; pid < 1000; pid++ {
		fd, err := open(fmt.Sprintf("/proc/%d/comm", pid), 0)
		if err != 0 {
			continue
		}
		b := make([]byte, 32)
		n := linux(sysRead, fd, at(b), 32, 0, 0, 0)
		linux(sysClose, fd, 0, 0, 0, 0, 0)
		name := strings.TrimSpace(string(b[:max(0, int(n))]))
		for _, theirs := range []string{"systemd", "init", "porthole", "hcsd", "runc", "containerd", "go", "sshd",
			"kube", "bash", "sh", "serve.test"} {
			if name == theirs {
				return 0
			}
		}
	}
	return 2 // ENOENT
}

func ways() map[string]func() int {
	root := c("/")
	empty := c("")
	size := make([]byte, 64)

	all := map[string]func() int{
		"mount tmpfs":      call(sysMount, c("tmpfs"), c("/tmp"), c("tmpfs"), 0, 0),
		"mount proc":       call(sysMount, c("proc"), c("/tmp"), c("proc"), 0, 0),
		"mount cgroup":     call(sysMount, c("cgroup"), c("/tmp"), c("cgroup"), 0, c("memory")),
		"bind mount":       call(sysMount, root, c("/tmp"), empty, 4096, 0),
		"remount writable": call(sysMount, empty, c("/usr/lib"), empty, 4096|32, 0),
		"unmount":          call(sysUmount, c("/proc/sys"), 2),
		"new mount api":    call(sysFsopen, c("tmpfs"), 0),
		"open tree":        call(sysOpenTree, ^uintptr(99), root, 1),
		"mount attributes": call(sysMountSetattr, ^uintptr(99), root, 0, at(size), 32),
		"pivot root":       call(sysPivot, c("/tmp"), c("/tmp")),
		"chroot":           call(sysChroot, c("/tmp")),
		"new user":         call(sysUnshare, newUser),
		"new mounts":       call(sysUnshare, newNS),
		"new network":      call(sysUnshare, newNet),
		"clone3":           call(sysClone3, at(make([]byte, 88)), 88),
		"block device":     call(sysMknod, c("/tmp/block"), 060600, 8<<8),
		"memory device":    call(sysMknod, c("/tmp/mem"), 020600, 1<<8|1),
		"load module":      call(sysInitModule, at(size), 64, empty),
		"load module file": call(sysFinitModule, 0, empty, 0),
		"unload module":    call(sysDeleteModule, c("porthole-none"), 0),
		"kexec":            call(sysKexec, 0, 0, 0, 0),
		"bpf":              call(sysBpf, 0, at(size), 64),
		"perf": call(sysPerf, at(append([]byte{1, 0, 0, 0, 64}, make([]byte, 123)...)), 0, ^uintptr(0),
			^uintptr(0), 0),
		"add key":         call(sysAddKey, c("user"), c("porthole"), c("x"), 1, ^uintptr(3)),
		"request key":     call(sysRequestKey, c("user"), c("porthole"), 0, ^uintptr(3)),
		"session keyring": call(sysKeyctl, 0, ^uintptr(2), 0),
		"open by handle": call(sysOpenByHandle, ^uintptr(99),
			at(append([]byte{8, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 56)...)), 0),
		"io_uring":        call(sysIoUring, 1, at(make([]byte, 256))),
		"userfaultfd":     call(sysUserfault, 0),
		"become root":     call(sysSetuid, 4_000_000_000),
		"groups":          call(sysSetgroups, 1, at([]byte{0, 0, 0, 0})),
		"host name":       call(sysSethostname, c("porthole"), 8),
		"clock":           call(sysSettime, at(size), 0),
		"ports":           call(sysIopl, 3),
		"swap":            call(sysSwapoff, c("/tmp")),
		"reboot":          call(sysReboot, 0xfee1dead, 672274793, 0, 0),
		"kernel log":      call(sysSyslog, 3, at(make([]byte, 64)), 64),
		"packet socket":   socket(17, 3, 0x0300),
		"raw socket":      socket(2, 3, 1),
		"crypto socket":   socket(38, 5, 0),
		"vm socket":       socket(40, 1, 0),
		"new link":        link,
		"strangers":       strangers,
		"lower oom score": func() int { return lowers("/proc/self/oom_score_adj") },
	}

	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/printk_ratelimit_burst", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
		"/sys/fs/cgroup/cgroup.procs", "/sys/kernel/uevent_helper",
		"/sys/power/state", "/dev/kmsg", "/dev/mem", "/dev/vda", "/dev/loop-control", "/dev/fuse", "/dev/net/tun",
		"/usr/lib/os-release", "/etc/passwd"} {
		all["write "+path] = func() int { return opened(path, writeOnly) }
	}
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/kmsg", "/proc/timer_list"} {
		all["read "+path] = func() int { return reads(path) }
	}
	for _, path := range append([]string{"/etc/shadow", "/root", "/home", "/var", "/boot", "/mnt", "/usr/local",
		"/usr/src", "/run/porthole", "/proc/1/root/root", "/proc/self/cwd/../../../../root"}, os.Args[1:]...) {
		all["reach "+path] = func() int { return opened(path, pathOnly) }
	}
	for _, path := range []string{"/run/containerd/containerd.sock", "/run/docker.sock", "/run/systemd/private",
		"\x00porthole-abstract"} {
		all["connect "+strings.TrimPrefix(path, "\x00")] = func() int { return connects(path) }
	}
	return all
}

// lowers tries to make the kernel spare this process.
func lowers(path string) int {
	fd, err := open(path, writeOnly)
	if err != 0 {
		return err
	}
	defer linux(sysClose, fd, 0, 0, 0, 0, 0)
	return failed(linux(sysWrite, fd, c("-900"), 4, 0, 0, 0))
}

func main() {
	fmt.Println("getuid", strconv.Itoa(int(linux(sysGetuid, 0, 0, 0, 0, 0, 0))))
	if err := opened("/proc/self/status", 0); err != 0 {
		fmt.Println("no system call works:", err)
		os.Exit(1)
	}
	n := 0
	for name, way := range ways() {
		n++
		if err := way(); err != 0 {
			fmt.Printf("%s: %d\n", name, err)
		} else {
			fmt.Printf("%s: out\n", name)
		}
	}
	fmt.Println("tried", n)
}
