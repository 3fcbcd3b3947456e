package kubelet

import (
	"context"
	"os"
	"strings"
	"time"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/numa"
	"porthole.dev/porthole/kubelet/serve"
	"porthole.dev/porthole/kubelet/usage"
)

// gatherPeriod is how often processes of the system are put into their cgroup, as upstream's kubelet does.
const gatherPeriod = time.Minute

// placePrograms puts the kubelet and the system's processes into the cgroups that the configuration names for them,
// until ctx ends. What fails is only logged: these cgroups are for figures.
func placePrograms(ctx context.Context, cfg *v1beta1.KubeletConfiguration) {
	if platform.IsWindows {
		return
	}
	log := klog.FromContext(ctx)
	if cfg.KubeletCgroups != "" {
		if err := cgroup.Join(cfg.KubeletCgroups, os.Getpid()); err != nil {
			log.Error(err, "The kubelet is not in its cgroup", "cgroup", cfg.KubeletCgroups)
		}
	}
	if cfg.SystemCgroups == "" {
		return
	}

	loop.Loop{Period: gatherPeriod, Pass: func(context.Context) error {
		err := cgroup.Gather(cfg.SystemCgroups)
		if err != nil {
			log.Error(err, "Processes of the system are not in their cgroup", "cgroup", cfg.SystemCgroups)
		}
		return err
	}}.Run(ctx)
}

// measured says which cgroups the server measures: none on a system without.
func measured(tree *cgroup.Tree, cfg *v1beta1.KubeletConfiguration, given string) serve.CgroupOptions {
	reader := usage.New()
	if tree == nil || reader == nil {
		return serve.CgroupOptions{}
	}
	p := &runtimeProgram{reader: reader, endpoint: cfg.ContainerRuntimeEndpoint, given: given, pods: tree.Top,
		misc: cfg.SystemCgroups}
	return serve.CgroupOptions{Reader: reader, Pods: tree.Top, Misc: cfg.SystemCgroups, Runtime: p.usage,
		Cgroup: p.cgroup}
}

// runtimeProgram finds what the runtime uses.
type runtimeProgram struct {
	reader          *usage.Reader
	endpoint, given string
	pods            func() string
	misc            string // the cgroup of the system's processes; may be empty
}

// cgroup returns the runtime's cgroup: the given one if there is one, else that of the process which listens for the
// kubelet. It returns "" if that is not the runtime's own.
func (p *runtimeProgram) cgroup() string {
	if _, ok := p.reader.One(p.given); ok && p.given != "" {
		return p.given
	}
	at := p.reader.OfProcess(p.pid())
	if at == "" || at == "/" || at == p.misc || at == p.reader.OfProcess(os.Getpid()) || ofPods(at, p.pods()) {
		return ""
	}
	if _, ok := p.reader.One(at); !ok {
		return ""
	}
	return at
}

// ofPods reports whether a cgroup is in that of all pods, which is empty as long as it is not known.
func ofPods(at, pods string) bool { return pods != "" && strings.HasPrefix(at, pods) }

// pid is the process at the other end of the runtime's socket; 0 if that is not known.
func (p *runtimeProgram) pid() int {
	pid, err := usage.Peer(p.endpoint)
	if err != nil {
		return 0
	}
	return pid
}

// usage returns what the runtime uses: its cgroup, with what it has started and still has there, or else the process
// alone.
func (p *runtimeProgram) usage() (usage.Group, bool) {
	if at := p.cgroup(); at != "" {
		return p.reader.One(at)
	}
	return p.reader.Process(p.pid())
}

// shownMachine describes the machine for the pages of metrics. Windows' physical cores are not known.
func shownMachine(h *platform.Host, cgroups serve.CgroupOptions) serve.Machine {
	m := serve.Machine{Cgroups: cgroups, CPUs: h.CPUs, MemoryBytes: h.MemoryBytes, MachineID: h.MachineID,
		SystemUUID: h.SystemUUID, BootID: h.BootID,
		KernelVersion: h.KernelVersion, OSImage: h.OSImage}
	parts, err := numa.Read(os.DirFS("/sys"), uint64(h.MemoryBytes))
	if err != nil {
		return m
	}
	cores, sockets := map[int]bool{}, map[int]bool{}
	for _, at := range parts.CPUs {
		cores[at.Core], sockets[at.Socket] = true, true
	}
	m.Cores = int64(len(cores))
	m.Sockets = int64(len(sockets))
	return m
}
