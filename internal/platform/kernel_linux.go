package platform

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kernelWants are the settings of the kernel that upstream's kubelet wants (setupKernelTunables of Kubernetes 1.36.3),
// below /proc/sys: memory may be promised beyond what there is, the OOM killer ends a process and not the machine, the
// machine boots again 10 s after a panic, an oops is a panic, and there are enough keys for the containers.
var kernelWants = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// SetKernel gives the kernel the settings that a kubelet wants. The error names those that it did not take.
func SetKernel() error {
	return eachSetting("/proc/sys",
		func(file, have, want string) error { return os.WriteFile(file, []byte(want), 0o644) })
}

// CheckKernel returns an error, in upstream's words, for each setting of the kernel that is not as a kubelet wants it.
func CheckKernel() error { return eachSetting("/proc/sys", differs) }

func differs(file, have, want string) error {
	name := strings.ReplaceAll(strings.TrimPrefix(file, "/proc/sys/"), "/", ".")
	return fmt.Errorf("invalid kernel flag: %s, expected value: %s, actual value: %s", name, want, have)
}

// eachSetting calls f for each setting below root that is not as it is wanted.
func eachSetting(root string, f func(file, have, want string) error) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(kernelWants)) {
		file, want := filepath.Join(root, name), kernelWants[name]
		text, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if have := strings.TrimSpace(string(text)); have != want {
			errs = append(errs, f(file, have, want))
		}
	}
	return errors.Join(errs...)
}
