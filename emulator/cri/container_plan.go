package cri

import (
	"fmt"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/guest"
)

// commandOf is the Windows command line: the container's, completed from the image as Kubernetes says it.
func commandOf(c *runtimeapi.ContainerConfig, image v1.ImageConfig) ([]string, error) {
	entry, args := image.Entrypoint, image.Cmd
	if len(c.GetCommand()) > 0 {
		entry, args = c.GetCommand(), nil
	}
	if len(c.GetArgs()) > 0 {
		args = c.GetArgs()
	}
	command := append(append([]string{}, entry...), args...)
	if len(command) == 0 {
		return nil, fmt.Errorf("container %s has no command, and its image has none either", c.GetMetadata().GetName())
	}
	return command, nil
}

func workingDir(c *runtimeapi.ContainerConfig, image v1.ImageConfig) string {
	switch {
	case c.GetWorkingDir() != "":
		return c.GetWorkingDir()
	case image.WorkingDir != "":
		return image.WorkingDir
	}
	return `C:\`
}

// environment is what the Linux process gets: the image's and the container's variables, and Wine's own settings.
func environment(c *runtimeapi.ContainerConfig, image v1.ImageConfig, o Options) []*runtimeapi.KeyValue {
	var set []guest.Variable
	for _, kv := range image.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			set = append(set, guest.Variable{Name: name, Value: value})
		}
	}
	for _, kv := range c.GetEnvs() {
		set = append(set, guest.Variable{Name: kv.Key, Value: string(kv.Value)})
	}

	var out []*runtimeapi.KeyValue
	for _, v := range guest.Environment(set, o.tools()) {
		out = append(out, &runtimeapi.KeyValue{Key: v.Name, Value: []byte(v.Value)})
	}
	return out
}

// registryAdditions are what the container's hives get in addition.
func registryAdditions(hostname string, dns *runtimeapi.DNSConfig, env []*runtimeapi.KeyValue) (system, user string) {
	var set []guest.Variable
	for _, kv := range env {
		set = append(set, guest.Variable{Name: kv.Key, Value: string(kv.Value)})
	}
	names := guest.Names{Hostname: hostname, Searches: dns.GetSearches(), Servers: dns.GetServers()}
	return names.Registry(), guest.RegistryOf(set)
}

const (
	cpuPeriod   = 100_000 // microseconds
	cpuMaximum  = 10_000  // of CpuMaximum: all CPUs of the machine
	cpuQuotaMin = 1_000   // microseconds; the kernel takes no less
)

// linuxResources turns a share of all CPUs into time on CPUs.
func linuxResources(w *runtimeapi.WindowsContainerResources, cpus int) *runtimeapi.LinuxContainerResources {
	r := &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: w.GetMemoryLimitInBytes(), MemorySwapLimitInBytes: w.GetMemoryLimitInBytes()}
	switch {
	case w.GetCpuMaximum() > 0 && w.GetCpuMaximum() < cpuMaximum:
		r.CpuPeriod = cpuPeriod
		r.CpuQuota = max(w.GetCpuMaximum()*int64(cpus)*cpuPeriod/cpuMaximum, cpuQuotaMin)
	case w.GetCpuCount() > 0 && w.GetCpuCount() < int64(cpus):
		r.CpuPeriod = cpuPeriod
		r.CpuQuota = w.GetCpuCount() * cpuPeriod
	}
	if w.GetCpuShares() > 0 {
		r.CpuShares = max(w.GetCpuShares(), 2)
	}
	return r
}

// systemMounts are what Wine itself needs of the machine, and the container's C: and registry.
func systemMounts(f folder) []*runtimeapi.Mount {
	readonly := func(path, source string) *runtimeapi.Mount {
		return &runtimeapi.Mount{ContainerPath: path, HostPath: source, Readonly: true}
	}
	return []*runtimeapi.Mount{
		readonly("/usr", "/usr"), readonly("/lib", "/lib"), readonly("/lib64", "/lib64"),
		readonly("/etc/nsswitch.conf", f.path("nsswitch.conf")),
		{ContainerPath: "/tmp", HostPath: f.path("tmp")}, // the wineserver's socket
		{ContainerPath: guest.Prefix, HostPath: f.path("prefix")},
		{ContainerPath: guest.DriveC, HostPath: f.driveC()},
	}
}
