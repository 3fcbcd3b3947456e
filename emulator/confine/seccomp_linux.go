package confine

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that containers are refused by default: those of kubelet/runtime/sandbox-seccomp.json,
// which a test there compares with containerd's profile. The numbers are those of amd64, the only machine for which
// Windows programs are emulated.
var refused = []struct {
	name   string
	number uint32
}{
	{"acct", unix.SYS_ACCT}, {"add_key", unix.SYS_ADD_KEY}, {"bpf", unix.SYS_BPF},
	{"clock_settime", unix.SYS_CLOCK_SETTIME},
	{"delete_module", unix.SYS_DELETE_MODULE}, {"fanotify_init", unix.SYS_FANOTIFY_INIT}, {"file_getattr", 468},
	{"file_setattr", 469},
	{"finit_module", unix.SYS_FINIT_MODULE}, {"fsconfig", unix.SYS_FSCONFIG}, {"fsmount", unix.SYS_FSMOUNT},
	{"fsopen", unix.SYS_FSOPEN},
	{"fspick", unix.SYS_FSPICK}, {"get_mempolicy", unix.SYS_GET_MEMPOLICY}, {"init_module", unix.SYS_INIT_MODULE},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER}, {"io_uring_register", unix.SYS_IO_URING_REGISTER},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP},
	{"ioperm", unix.SYS_IOPERM}, {"iopl", unix.SYS_IOPL}, {"kcmp", unix.SYS_KCMP},
	{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD},
	{"kexec_load", unix.SYS_KEXEC_LOAD}, {"keyctl", unix.SYS_KEYCTL}, {"listns", 470},
	{"lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE},
	{"mbind", unix.SYS_MBIND}, {"migrate_pages", unix.SYS_MIGRATE_PAGES}, {"mount", unix.SYS_MOUNT},
	{"mount_setattr", unix.SYS_MOUNT_SETATTR},
	{"move_mount", unix.SYS_MOVE_MOUNT}, {"move_pages", unix.SYS_MOVE_PAGES},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT},
	{"open_tree", unix.SYS_OPEN_TREE}, {"open_tree_attr", 467}, {"perf_event_open", unix.SYS_PERF_EVENT_OPEN},
	{"pidfd_getfd", unix.SYS_PIDFD_GETFD},
	{"pivot_root", unix.SYS_PIVOT_ROOT}, {"process_madvise", unix.SYS_PROCESS_MADVISE}, {"quotactl", unix.SYS_QUOTACTL},
	{"quotactl_fd", unix.SYS_QUOTACTL_FD}, {"reboot", unix.SYS_REBOOT}, {"request_key", unix.SYS_REQUEST_KEY},
	{"set_mempolicy", unix.SYS_SET_MEMPOLICY},
	{"set_mempolicy_home_node", unix.SYS_SET_MEMPOLICY_HOME_NODE}, {"setdomainname", unix.SYS_SETDOMAINNAME},
	{"sethostname", unix.SYS_SETHOSTNAME},
	{"setns", unix.SYS_SETNS}, {"settimeofday", unix.SYS_SETTIMEOFDAY}, {"swapoff", unix.SYS_SWAPOFF},
	{"swapon", unix.SYS_SWAPON},
	{"sysfs", unix.SYS_SYSFS}, {"syslog", unix.SYS_SYSLOG}, {"umount2", unix.SYS_UMOUNT2},
	{"unshare", unix.SYS_UNSHARE}, {"uselib", unix.SYS_USELIB},
	{"userfaultfd", unix.SYS_USERFAULTFD}, {"ustat", unix.SYS_USTAT}, {"vhangup", unix.SYS_VHANGUP},
}

// refusedFlags are those of clone that make a namespace (CLONE_NEW* of linux/sched.h), refusedFamilies the families of
// sockets that reach the kernel's cryptography and virtual machines.
var (
	refusedFlags = []uint32{unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC,
		unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET}
	refusedFamilies = []uint32{unix.AF_ALG, unix.AF_VSOCK}
)

// The parts of a seccomp profile (opencontainers/runtime-spec, config-linux.md).
type (
	// SeccompProfile says which system calls are refused.
	SeccompProfile struct {
		DefaultAction string        `json:"defaultAction"`
		Syscalls      []SeccompRule `json:"syscalls"`
	}
	// SeccompRule is one action for some system calls.
	SeccompRule struct {
		Names  []string     `json:"names"`
		Action string       `json:"action"`
		Errno  uint         `json:"errnoRet,omitempty"` // 0: EPERM
		Args   []SeccompArg `json:"args,omitempty"`
	}
	// SeccompArg is a condition for the argument with the number Index.
	SeccompArg struct {
		Index    uint   `json:"index"`
		Value    uint64 `json:"value"`
		ValueTwo uint64 `json:"valueTwo,omitempty"`
		Op       string `json:"op"`
	}
)

const refuse = "SCMP_ACT_ERRNO"

// Profile returns the filter of system calls in the form that runc takes.
func Profile() SeccompProfile {
	names := make([]string, len(refused))
	for i, c := range refused {
		names[i] = c.name
	}
	// clone3 has its flags in memory, where no filter sees them; programs that get ENOSYS use clone.
	p := SeccompProfile{"SCMP_ACT_ALLOW",
		[]SeccompRule{{Names: names, Action: refuse},
			{Names: []string{"clone3"}, Action: refuse, Errno: uint(unix.ENOSYS)}}}
	for _, flag := range refusedFlags {
		p.Syscalls = append(p.Syscalls, SeccompRule{Names: []string{"clone"}, Action: refuse,
			Args: []SeccompArg{{Index: 0, Value: uint64(flag), ValueTwo: uint64(flag), Op: "SCMP_CMP_MASKED_EQ"}}})
	}
	for _, family := range refusedFamilies {
		p.Syscalls = append(p.Syscalls,
			SeccompRule{Names: []string{"socket"}, Action: refuse,
				Args: []SeccompArg{{Index: 0, Value: uint64(family), Op: "SCMP_CMP_EQ"}}})
	}
	return p
}

// Offsets in struct seccomp_data (linux/seccomp.h), and the bit of the numbers of the x32 system calls.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16 // its low half
	x32          = 0x40000000
)

// filter is the profile as a program of the kernel's packet filter, which allows the calls in except. It refuses
// system calls of other architectures with ENOSYS.
func filter(except ...string) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(errno unix.Errno) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	// unless skips the next instruction if the test fails.
	unless := func(test uint16, value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: 1, K: value}
	}

	p := []unix.SockFilter{load(offsetArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.AUDIT_ARCH_X86_64}, answer(unix.ENOSYS),
		load(offsetNumber), unless(unix.BPF_JGE, x32), answer(unix.ENOSYS), unless(unix.BPF_JEQ, unix.SYS_CLONE3),
		answer(unix.ENOSYS)}
	for _, c := range refused {
		if !slices.Contains(except, c.name) {
			p = append(p, unless(unix.BPF_JEQ, c.number), answer(unix.EPERM))
		}
	}

	// A call whose first argument matters has a block of its own, which other calls jump over.
	block := func(number uint32, test uint16, values []uint32) {
		p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(2 + 2*len(values)),
			K: number}, load(offsetArg0))
		for _, v := range values {
			p = append(p, unless(test, v), answer(unix.EPERM))
		}
		p = append(p, allow)
	}
	block(unix.SYS_CLONE, unix.BPF_JSET, refusedFlags)
	block(unix.SYS_SOCKET, unix.BPF_JEQ, refusedFamilies)
	return append(p, allow)
}

// limit takes all rights from the calling thread and from what it starts, for good: capabilities, new ones by execve,
// and the refused system calls. The thread keeps the capabilities that it has until it becomes another user.
func limit() error {
	for n := range unix.CAP_LAST_CAP + 1 {
		// unknown to this kernel
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("dropping capability %d: %w", n, err)
		}
	}
	return FilterCalls()
}

// FilterCalls refuses the calling thread, and what it starts, new rights by execve and the refused system calls but
// for those in except.
func FilterCalls(except ...string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refusing new rights: %w", err)
	}
	program := filter(except...)
	bpf := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&bpf)), 0,
		0); err != nil {
		return fmt.Errorf("filtering system calls: %w", err)
	}
	return nil
}
