package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// RuntimeMetrics is the address, in the World's network namespace, where containerd serves /v1/metrics.
const RuntimeMetrics = "127.0.0.1:1338"

// RuntimeProfiles is the address where containerd serves /debug/pprof.
const RuntimeProfiles = "127.0.0.1:1339"

func (w *World) socket() string { return w.Path("containerd", "containerd.sock") }

// endpoint is the socket of the runtime that kubelets are given.
func (w *World) endpoint() string {
	if w.proxy != "" {
		return w.proxy
	}
	return w.socket()
}

// RestartContainerd ends containerd and starts it again. With kill it is not given the time to end in order. It
// returns when pods can be made. Containers keep running meanwhile.
func (w *World) RestartContainerd(ctx context.Context, kill bool) error {
	p := w.Process("containerd")
	if kill {
		p.Kill()
	} else {
		p.Stop()
	}
	if _, err := w.Start("containerd", w.bundled("containerd"), "--config",
		w.Path("containerd", "config.toml")); err != nil {
		return err
	}
	return wait.For(ctx, 60*time.Second, "containerd", w.runtimeReady)
}

// CNIDir is the folder in which CNI keeps the addresses in use, one file each.
func (w *World) CNIDir() string { return w.Path("cni", "data", "world") }

// writeContainerd writes containerd's configuration, and a bridge network with the plugins of a Linux node.
func (w *World) writeContainerd() error {
	text := fmt.Sprintf(`version = 4
root = %[1]q
state = %[2]q
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[plugins.'io.containerd.server.v1.grpc']
  address = %[3]q
[plugins.'io.containerd.server.v1.ttrpc']
  address = %[4]q
[plugins.'io.containerd.server.v1.metrics']
  address = %[8]q
[plugins.'io.containerd.server.v1.debug']
  address = %[9]q
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %[5]q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [%[6]q]
  conf_dir = %[7]q
  use_internal_loopback = true
`, w.Path("containerd", "root"), w.Path("containerd", "state"), w.socket(), w.socket()+".ttrpc", pauseImage, w.bundled("cni"), w.Path("cni", "net.d"), RuntimeMetrics, RuntimeProfiles)

	if w.o.SystemdCgroups {
		text += `[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true
`
	}
	for _, dir := range []string{"containerd/root", "containerd/state", "cni/net.d"} {
		if err := os.MkdirAll(w.Path(dir), 0o755); err != nil {
			return err
		}
	}

	return errors.Join(os.WriteFile(w.Path("containerd", "config.toml"), []byte(text), 0o644),
		WriteJSON(w.Path("cni", "net.d", "10-world.conflist"), object{
			"cniVersion": "1.0.0", "name": "world", "plugins": []object{
				{"type": "bridge", "bridge": "pods0", "isDefaultGateway": true, "ipMasq": false, "hairpinMode": true,
					"ipam": object{"type": "host-local", "dataDir": w.Path("cni", "data"),
						"ranges": [][]object{{{"subnet": podRange}}}}},
				{"type": "portmap", "backend": "nftables", "capabilities": object{"portMappings": true}},
			}}))
}

const cgroups = "/sys/fs/cgroup"

// hierarchies returns the hierarchies of cgroups: the mount point itself on v2, one folder per controller on v1 and
// hybrid hosts.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{cgroups}, nil
	}
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		// A folder on which no hierarchy is mounted has no processes.
		if _, err := os.Stat(filepath.Join(cgroups, e.Name(), "cgroup.procs")); e.IsDir() && err == nil {
			out = append(out, filepath.Join(cgroups, e.Name()))
		}
	}
	return out, nil
}

// makeCgroups makes the cgroup of a World in every hierarchy, because upstream's kubelet expects it.
func makeCgroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the cgroup %s: %w", dir, err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(h, file))
			if err != nil { // this hierarchy has no cpuset
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
				return fmt.Errorf("making the cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}
