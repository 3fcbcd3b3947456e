package runtime

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxCapabilities are those that containerd gives a sandbox.
var sandboxCapabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD",
	"CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}

// notRefused are the system calls that containerd's profile does not name and ours allows. No kernel of today
// implements the first; of the others one gives up the processor and one is for the kernel's own probes. Of
// personality the profile cannot tell harmless arguments.
var notRefused = strings.Fields(`_sysctl afs_syscall arch_specific_syscall create_module get_kernel_syms getpmsg nfsservctl putpmsg query_module security tuxcall vserver
	rseq_slice_yield uprobe personality`)

// TestSandboxProfile compares the profile with containerd's: it refuses no system call that the other allows, and each
// that the other refuses but notRefused.
func TestSandboxProfile(t *testing.T) {
	var ours specs.LinuxSeccomp
	if err := json.Unmarshal(sandboxProfile, &ours); err != nil {
		t.Fatal(err)
	}
	theirs := seccomp.DefaultProfile(
		&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: sandboxCapabilities}}})
	if ours.DefaultAction != specs.ActAllow || theirs.DefaultAction != specs.ActErrno || len(ours.Architectures) > 0 {
		t.Fatalf("ours %s for %v, theirs %s", ours.DefaultAction, ours.Architectures, theirs.DefaultAction)
	}

	var refused, allowed []string
	for _, s := range ours.Syscalls {
		refused = append(refused, s.Names...)
	}
	for _, s := range theirs.Syscalls {
		if s.Action == specs.ActAllow && len(s.Args) == 0 {
			allowed = append(allowed, s.Names...)
		}
	}
	for _, name := range refused {
		if slices.Contains(allowed, name) {
			t.Errorf("containerd's profile allows %s, ours does not", name)
		}
	}
	if ours, theirs := cloneFlags(ours), cloneFlags(*theirs); ours != theirs || ours == 0 {
		t.Errorf("ours refuses clone with the flags %#x, containerd's with %#x", ours, theirs)
	}
	for _, family := range []uint64{unix.AF_ALG, unix.AF_VSOCK} {
		if !slices.ContainsFunc(ours.Syscalls, func(s specs.LinuxSyscall) bool {
			return slices.Equal(s.Names, []string{"socket"}) && len(s.Args) == 1 && s.Args[0].Op == specs.OpEqualTo &&
				s.Args[0].Value == family
		}) {
			t.Errorf("ours allows sockets of the family %d", family)
		}
	}
	for _, name := range systemCalls(t) {
		if !slices.Contains(allowed, name) && !slices.Contains(refused, name) && !slices.Contains(notRefused, name) {
			t.Errorf("containerd's profile refuses %s, ours does not", name)
		}
	}
}

// cloneFlags are the flags with which a profile refuses clone: by a rule for each, or by one that allows it without
// any of them.
func cloneFlags(p specs.LinuxSeccomp) (flags uint64) {
	for _, s := range p.Syscalls {
		if slices.Equal(s.Names, []string{"clone"}) && len(s.Args) == 1 && s.Args[0].Op == specs.OpMaskedEqual {
			flags |= s.Args[0].Value
		}
	}
	return flags
}

// systemCalls are the names of all system calls of amd64 and arm64 that golang.org/x/sys/unix knows.
func systemCalls(t *testing.T) (names []string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+arch+".go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+=`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, strings.ToLower(m[1]))
		}
	}
	if len(names) < 600 {
		t.Fatalf("%d system calls found", len(names))
	}
	return names
}

func TestSandboxSeccomp(t *testing.T) {
	root := filepath.Join(t.TempDir(), "seccomp")
	path, err := WriteSandboxProfile(root)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := WriteSandboxProfile(root); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a profile that is right was written again: %v", err)
	}

	without, r := New(nil, Options{}), New(nil, Options{SandboxProfile: path})
	if p := without.boxProfile.of(""); p != nil {
		t.Errorf("without a profile: %v", p)
	}
	if p := r.boxProfile.of("kata"); p != nil {
		t.Errorf("another handler: %v", p)
	}
	p := r.boxProfile.of("")
	if p.GetProfileType() != cri.SecurityProfile_Localhost || p.GetLocalhostRef() != path {
		t.Fatalf("the default handler: %v", p)
	}

	r.boxProfile.noteRefusal(t.Context(), p, errors.New("plugin type=bridge failed"))
	if r.boxProfile.of("") == nil {
		t.Error("an error of the network was taken for a refusal of the profile")
	}
	r.boxProfile.noteRefusal(t.Context(), p,
		errors.New("failed to generate seccomp spec opts: cannot load seccomp profile"))
	if p := r.boxProfile.of(""); p != nil {
		t.Errorf("after a refusal: %v", p)
	}
}
