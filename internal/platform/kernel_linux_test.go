package platform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKernelSettings: settings that are right are not written, and those that are not are set, or named.
func TestKernelSettings(t *testing.T) {
	root := t.TempDir()
	for name, value := range kernelWants {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "vm/overcommit_memory" {
			value = "0"
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	var seen []string
	note := func(file, have, want string) error {
		seen = append(seen, strings.TrimPrefix(file, root)+" "+have+" "+want)
		return differs(strings.Replace(file, root, "/proc/sys", 1), have, want)
	}
	err := eachSetting(root, note)
	if len(seen) != 1 || seen[0] != "/vm/overcommit_memory 0 1" {
		t.Errorf("not as wanted: %q", seen)
	}
	if want := "invalid kernel flag: vm.overcommit_memory, expected value: 1, actual value: 0"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}

	if err := os.Remove(filepath.Join(root, "kernel/panic")); err != nil {
		t.Fatal(err)
	}
	if err := eachSetting(root, note); err == nil || !strings.Contains(err.Error(), "kernel/panic: no such file") {
		t.Errorf("a kernel without a setting: %v", err)
	}
}

// TestSetKernel changes the settings of this machine, so that it runs on a kernel of its own only (test/kubelet
// TestCgroupV2).
func TestSetKernel(t *testing.T) {
	if os.Getenv("PORTHOLE_OWN_KERNEL") == "" {
		t.Skip("TestCgroupV2 of test/kubelet runs it")
	}
	if err := os.WriteFile("/proc/sys/vm/overcommit_memory", []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckKernel(); err == nil ||
		!strings.Contains(err.Error(),
			"invalid kernel flag: vm.overcommit_memory, expected value: 1, actual value: 0") {
		t.Errorf("before: %v", err)
	}
	if err := SetKernel(); err != nil {
		t.Errorf("setting: %v", err)
	}
	if err := CheckKernel(); err != nil {
		t.Errorf("after: %v", err)
	}
}

// TestCgroupRules: settings that take cgroups of version 2 are refused, in upstream's words, on a machine that has
// version 1 alone or both.
func TestCgroupRules(t *testing.T) {
	var fs unix.Statfs_t
	first := unix.Statfs("/sys/fs/cgroup", &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC
	for want, rules := range map[string]NodeRules{
		"swap feature is enabled and LimitedSwap but it is only supported with cgroupv2": {
			LimitedSwap: true},
		"invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1": {
			EndAllOnOOM: true},
	} {
		if err := CheckNode(rules); first != (err != nil) || first && err.Error() != want {
			t.Errorf("version 1 %v: %v, want %s", first, err, want)
		}
	}
}
