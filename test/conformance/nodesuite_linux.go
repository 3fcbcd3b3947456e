package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
)

// nodeSuite runs upstream's suite of node tests (test/e2e_node) on a machine in namespaces. The suite brings an API
// server with it, and starts, configures and restarts the kubelet as a service; of the local cluster it needs the
// registry only.
type nodeSuite struct {
	o     options
	dir   string      // of the machine: containerd's files, the kubelet's folder and the suite's own
	trees []hierarchy // of cgroups
	group string      // the machine's cgroup, from the root of each of trees; empty: none yet
}

// Name and address of the machine.
// The address is one of the local cluster's network that no node has.
const suiteNode = "suite01"

var suiteAddress = netip.MustParseAddr("10.99.0.90")

// suiteProgram is the suite, which starts its API server and the kubelet too.
const suiteProgram = "e2e_node.test"

// suiteRange are the addresses of its pods.
const suiteRange = "10.100.0.0/24"

// The suite expects figures of the system's processes (misc) where there is no systemd, but tells the kubelet their
// cgroup only if there is no systemd-run either, for which something stands here.
//
// nodeConfig is what the suite makes the kubelet's configuration of: the suite's own defaults, less space that must be
// free on the disk, and what a kernel needs that is shared.
const nodeConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /
systemCgroups: /system
failSwapOn: false
failCgroupV1: false
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
volumeStatsAggPeriod: 10s
serializeImagePulls: false
fileCheckFrequency: 10s
podCIDR: ` + suiteRange + `
evictionPressureTransitionPeriod: 30s
evictionHard: {memory.available: 250Mi, nodefs.available: 2%, nodefs.inodesFree: 2%}
`

// systemSpec has the suite accept any kernel: what this one has, the tests show.
const systemSpec = "os: Linux\nkernelSpec: {versions: ['.*']}\n"

// lockFlags are what the test of the lock file wants the kubelet to be started with.
const lockFlags = " --lock-file=/run/kubelet.lock --exit-on-lock-contention"

// bridge is the network of the machine's pods.
const bridge = `{"cniVersion": "1.0.0", "name": "suite", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "` + suiteRange + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

// newNodeSuite touches nothing; prepare makes the files.
func newNodeSuite(o options) *nodeSuite {
	return &nodeSuite{o: o, dir: filepath.Join(o.dir, "node-suite")}
}

func (s *nodeSuite) at(name ...string) string {
	return filepath.Join(append([]string{s.dir}, name...)...)
}

// containerd is the configuration of the suite's own containerd. It shares no folder with those of the cluster's nodes.
func (s *nodeSuite) containerd() containerdconf.Options {
	return containerdconf.Options{Dir: s.at("c"), Registry: "http://" + lab.Router.String() + ":5000",
		CNIConfDir: s.at("cni"),
		CNIBinDir:  filepath.Join(s.o.bin, "bundle", "cni"), InternalLoopback: true}
}

// prepare makes the machine's files and its network.
func (s *nodeSuite) prepare() error {
	unit, err := filepath.Abs(filepath.Join(s.o.bin, "conformance", "unit"))
	if err != nil {
		return err
	}
	if err := errors.Join(s.makeGroup(), s.mountDisk()); err != nil {
		return err
	}
	// The flag keeps our kubelet from changing settings of the kernel that the machine shares.
	kubelet := filepath.Join(s.o.bin, "porthole") + lockFlags + " --keep-kernel-settings"
	if s.o.kubelet == upstreams {
		kubelet = filepath.Join(s.o.bin, "bundle", "kubelet") + lockFlags
	}
	errs := []error{s.writeContainerd(), lab.Default.EnsureHost(suiteNode, suiteAddress)}
	for _, dir := range []string{"kubelet", "work", "bin", "units"} {
		errs = append(errs, os.MkdirAll(s.at(dir), 0o755))
	}

	// All files can be executed, as some are scripts.
	for name, text := range map[string]string{"cni/10-suite.conflist": bridge, "kubelet.yaml": nodeConfig,
		"system.yaml": systemSpec,
		"hosts":       "127.0.0.1 localhost " + suiteNode + "\n", "machine": s.machine(), "join": s.joining(),
		"bin/kubelet": "#!/bin/bash\nexec -a kubelet " + kubelet + // both programs are the kubelet by this name
			" \"$@\"\n"} {
		errs = append(errs, os.WriteFile(s.at(name), []byte(text), 0o755))
	}
	// it writes its files beside it
	links := map[string]string{"work/" + suiteProgram: newCluster(s.o).program("conformance", suiteProgram)}
	for _, name := range []string{"sudo", "systemctl", "systemd-run"} {
		links["units/"+name] = unit
	}
	for name, to := range links {
		if err := os.Symlink(to, s.at(name)); err != nil && !errors.Is(err, os.ErrExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// diskSize is the size of the machine's disk. Tests of eviction write 4 GiB, and that of a pod that is never evicted
// 10 GB.
const diskSize = 16 << 30

// disk is the file that holds the machine's disk.
func (s *nodeSuite) disk() string { return s.dir + ".disk" }

// mountDisk gives the machine a disk of its own: tests of eviction fill it to a threshold that they reckon from what
// is free at the beginning, so that nobody else may write to it.
func (s *nodeSuite) mountDisk() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	// The file is sparse: space is taken as the tests write.
	file, err := os.Create(s.disk())
	if err == nil {
		err = errors.Join(file.Truncate(diskSize), file.Close())
	}
	if err != nil {
		return fmt.Errorf("making the disk of %s: %w", suiteNode, err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", s.disk()},
		{"mount", "-o", "loop,discard", s.disk(), s.dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("making the disk of %s: %v: %w: %s", suiteNode, command, err, out)
		}
	}
	return nil
}

// handler is a second handler of containerd, under the name that tests of RuntimeClass ask for.
const handler = `
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.test-handler]
  runtime_type = "io.containerd.runc.v2"
`

// writeContainerd adds the second handler to the usual configuration.
func (s *nodeSuite) writeContainerd() error {
	o := s.containerd()
	if err := containerdconf.Write(o); err != nil {
		return err
	}
	return os.WriteFile(o.File(), append(containerdconf.ContainerdConfig(o), handler...), 0o644)
}

// machine is the script that makes the machine around the suite, in namespaces of its own: with its end all of it ends.
func (s *nodeSuite) machine() string {
	c := s.containerd()
	return fmt.Sprintf(`set -e
%shostname %s
mkdir -p /var/lib/kubelet /var/log/pods
mount --bind %s /var/lib/kubelet
mount --make-shared /var/lib/kubelet
mount -t tmpfs run /run
mkdir -p /run/containerd
ln -s %s /run/containerd/containerd.sock # cAdvisor of upstream's kubelet looks there only
mount -t tmpfs logs /var/log/pods
mount --bind %s /etc/hosts
cd %s
%s --config %s > %s 2>&1 &
for i in $(seq 300); do [ -S %s ] && break; sleep 0.1; done
export PATH=%s:%s:$PATH
exec "$@"
`, mounting(s.trees), suiteNode, s.at("kubelet"), c.Socket(), s.at("hosts"), s.at("work"), filepath.Join(s.o.bin, "bundle", "containerd"), c.File(), s.at("containerd.log"), c.Socket(),
		s.at("units"), filepath.Join(s.o.bin, "bundle"))
}

// command runs ginkgo in the machine.
// nsenter takes the network of the emulated host; everything else is the machine's own namespaces.
func (s *nodeSuite) command(ctx context.Context) *exec.Cmd {
	suite := newCluster(s.o)
	args := []string{"--net=" + platform.NetnsPath(lab.Default.Netns(suiteNode)), "bash", s.at("join"),
		suite.program("conformance", "ginkgo"), "--procs=" + strconv.Itoa(min(s.o.parallel, nodeSuiteParallel))}
	args = append(args, suite.ginkgoArguments()...)
	args = append(args, s.at("work", suiteProgram), "--", "--k8s-bin-dir="+s.at("bin"),
		"--container-runtime-endpoint=unix://"+s.containerd().Socket(),
		"--report-dir="+s.o.logs, "--prepull-images=false", "--node-name="+suiteNode,
		"--kubelet-config-file="+s.at("kubelet.yaml"), "--system-spec-file="+s.at("system.yaml"))
	return exec.CommandContext(ctx, "nsenter", args...)
}

// nodeSuiteParallel is how many tests run at once at most: all pods are on one node, and several tests measure seconds.
const nodeSuiteParallel = 4

// remove removes the machine. What the kubelet left is in its folder.
func (s *nodeSuite) remove() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	// the disk, which was mounted first, is the last
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if w := strings.Fields(line); len(w) > 1 && strings.HasPrefix(w[1]+"/", s.dir+"/") {
			errs = append(errs, syscall.Unmount(w[1], syscall.MNT_DETACH))
		}
	}
	// what is mounted is not deleted
	// A folder with a mount in it would lose what is mounted.
	if err := errors.Join(append(errs, s.removeGroup(), lab.Default.RemoveHost(suiteNode))...); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(s.dir), os.RemoveAll(s.disk()))
}
