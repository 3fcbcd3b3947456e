package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// runtimeCgroup is the folder, in the World's cgroup, of containerd and what it starts.
const runtimeCgroup = "runtime"

// MeterRuntime puts containerd, and with it the shims and plugins that it starts from now on, into a cgroup of their
// own, so that RuntimeCPU can tell their processor time. Pods are in cgroups of their own already.
func (w *World) MeterRuntime() error {
	dir := filepath.Join(processorCgroups(), w.Name, runtimeCgroup)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the cgroup of the runtime: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(w.Process("containerd").PID())), 0o644)
}

// RuntimeCPU is the processor time of containerd with its shims, of runc and of CNI plugins, and that of the pods' own
// processes, both in seconds since MeterRuntime. What has ended counts.
func (w *World) RuntimeCPU() (runtime, pods float64, err error) {
	all, err := cgroupCPU(w.Name)
	runtime, err2 := cgroupCPU(filepath.Join(w.Name, runtimeCgroup))
	return runtime, all - runtime, errors.Join(err, err2)
}

// processorCgroups is the hierarchy that counts processor time.
func processorCgroups() string {
	if v1 := filepath.Join(cgroups, "cpuacct"); exists(v1) {
		return v1
	}
	return cgroups
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cgroupCPU is the processor time of a cgroup and of those below it, in seconds.
func cgroupCPU(name string) (float64, error) {
	dir := filepath.Join(processorCgroups(), name)
	if data, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage")); err == nil {
		ns, err := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
		return ns / 1e9, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of cgroup %s: %w", name, err)
	}
	for line := range strings.Lines(string(data)) {
		var us float64
		if n, _ := fmt.Sscanf(line, "usage_usec %f", &us); n == 1 {
			return us / 1e6, nil
		}
	}
	return 0, fmt.Errorf("cgroup %s tells no processor time", name)
}
