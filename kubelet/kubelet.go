package kubelet

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/effect"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/status"
)

// Kubelet routes facts to the actors of pods.
type Kubelet struct {
	o    Options
	pods *Pods

	status    *status.Writer
	probes    *probe.Manager
	admission *admission
	burst     *burst
	statics   *staticPods
	node      *nodestatus.Node
	runtime   *runtimeWatch
	observer  *observer
	cleaner   *cleaner
	pressure  *pressure
	shutdown  *shutdown
	share     *allot.Share // nil on a system without cgroups
	tools     *effect.Options

	ctx     context.Context // of Run
	running group
}

// New makes a kubelet that does nothing yet.
func New(o Options) *Kubelet {
	if o.Pods == nil {
		o.Pods = NewPods()
	}
	if o.Allot == nil {
		o.Allot = allot.New(allot.Options{})
	}
	if o.Node.IPs == nil {
		o.Node.IPs = func() []string { return nil }
	}
	if o.Node.Changed == nil {
		o.Node.Changed = wakeup.New()
	}
	o.Meter.Life().CgroupVersion(cgroup.Version())

	k := &Kubelet{o: o, pods: o.Pods, status: status.New(o.API, o.Meter.Life().StatusWritten), burst: newBurst(o.Burst)}
	k.statics = &staticPods{set: static.NewSet(len(o.Static)), sources: o.Static, status: k.status, events: o.API,
		tasks: &k.running, pods: k.pods, ensure: k.ensure, restarted: o.Meter.Life().Restarted}
	k.runtime = &runtimeWatch{service: o.Runtime, changed: k.runtimeChanged}
	k.shutdown = &shutdown{pods: k.pods, changed: o.Node.Changed, reported: k.status.Ended, event: o.API.NodeEvent,
		meter: o.Meter, dir: o.RootDir, windows: o.Windows}
	k.node = nodestatus.New(o.Node, k.nodeLinks())
	k.pressure = &pressure{Pressure: o.Pressure, pods: k.pods, conditions: k.node.SetPressures, images: o.ImageGC,
		event: o.API.NodeEvent, meter: o.Meter}
	k.admission = k.newAdmission()
	k.probes = probe.New(probe.Options{Exec: o.Runtime.Exec, Report: k.probed, Event: o.API.PodEvent,
		Measure: o.Meter.Probe})
	k.tools = k.newTools()
	k.observer = k.newObserver()
	k.cleaner = k.newCleaner()
	return k
}

// newTools returns what the actions of pods are carried out with. On a system with cgroups it makes what keeps their
// shares.
func (k *Kubelet) newTools() *effect.Options {
	o, shared := &k.o, func() {}
	var groups cgroups = cgroup.None{}
	if o.Cgroups != nil {
		groups = timedCgroups{o.Cgroups, o.Meter.Life()}
		k.share = allot.NewShare(groups, k.sharing, o.API.NodeEvent)
		shared = k.share.Changed
	}
	return &effect.Options{Runtime: o.Runtime.Runtime, Images: o.Images, Volumes: o.Volumes, Groups: o.Volumes,
		Cgroups: groups, Objects: o.API, Events: o.API, Allot: o.Allot, Health: k.runtime.health.Load, Meter: o.Meter,
		Folders:  &effect.Folders{Pods: o.Volumes, Logs: o.PodLogsDir, Cgroups: groups},
		NodeName: o.Node.Name, NodeIPs: o.Node.IPs, Allocatable: k.NodeAllocatable, DNS: o.DNS, HostDNS: o.HostDNS,
		Windows: o.Windows, RootDir: o.RootDir, Shared: shared}
}

// sharing returns the pods that have not ended; nil as long as not all are known.
func (k *Kubelet) sharing() []*v1.Pod {
	if !k.pods.knowledge.joined.Load() && !k.o.Standalone {
		return nil
	}
	out := []*v1.Pod{}
	for _, v := range k.pods.View() {
		if v.Pod.Status.Phase != v1.PodSucceeded && v.Pod.Status.Phase != v1.PodFailed {
			out = append(out, v.Pod)
		}
	}
	return out
}

// newAdmission builds the admission of this node. Sysctls are checked against the version of the Linux kernel, so
// Windows nodes give none, which allows no sysctl that needs a certain version. Without an API server there is no node
// object to read again.
func (k *Kubelet) newAdmission() *admission {
	kernel := k.o.Node.Host.KernelVersion
	if k.o.Windows {
		kernel = ""
	}
	sysctls := admit.NewSysctls(kernel, k.o.UnsafeSysctls)

	d := &admission{Admitter: admit.New(), allot: k.o.Allot, pressures: k.node.Pressures, known: k.node.Object,
		fresh: k.o.API.GetNode, preempt: k.preempt, closed: k.shutdown.refusal}
	if k.o.Standalone {
		d.fresh = nil
	}
	d.facts = func(n *v1.Node) admit.Node {
		return admit.Node{Object: n, Allocatable: k.node.Allocatable(n), OS: k.o.Node.Host.OS, Sysctls: sysctls,
			Features:   k.o.Node.DeclaredFeatures,
			NoAppArmor: !k.o.Windows && !k.o.Node.Host.AppArmor}
	}
	d.Granted = func(uid types.UID) { k.pods.Wake([]types.UID{uid}) }
	return d
}

// nodeLinks connects the node's status with the API and the runtime.
func (k *Kubelet) nodeLinks() nodestatus.Links {
	links := nodestatus.Links{API: k.o.API, Measure: k.o.Meter.Start(), Event: k.o.API.NodeEvent,
		ShuttingDown: k.shutdown.active.Load,
		Runtime: func() (runtime.Version, runtime.Health) {
			return *k.runtime.version.Load(), *k.runtime.health.Load()
		},
		PodCIDR: k.passPodCIDR, Devices: k.o.Allot.Amounts}
	if k.o.Volumes.nodeVolumes != nil {
		links.VolumesInUse = k.o.Volumes.VolumesInUse
		links.Seen = k.o.Volumes.ObserveNode
	}
	return links
}

// passPodCIDR hands the node's pod range to the runtime and checks whether that made its network ready.
func (k *Kubelet) passPodCIDR(cidr string) {
	if k.o.PodRange != nil {
		k.o.PodRange(cidr)
	}
	k.running.Go(func() {
		if err := k.o.Runtime.SetPodCIDR(k.ctx, cidr); err != nil {
			klog.FromContext(k.ctx).Error(err, "Passing on the pod CIDR failed")
		}
		k.runtime.check(k.ctx)
	})
}

// runtimeChanged reports the node at once, and lets pods that waited for the network try again.
func (k *Kubelet) runtimeChanged(h runtime.Health) {
	k.node.ReportSoon()
	if h.NetworkReady {
		k.pods.WakeAll()
	}
}

// Healthy returns nil as long as the kubelet does its rounds. What is wrong with the node is in the node's status.
func (k *Kubelet) Healthy() error { return k.runtime.stuck() }

// podChanged takes a pod from the API.
func (k *Kubelet) podChanged(p *v1.Pod) {
	if static.IsMirror(p) {
		k.statics.mirrorChanged(p)
		return
	}

	k.status.Observe(p)
	if !k.pods.knowledge.mayAdmit() && p.Status.StartTime != nil && p.Status.Phase != v1.PodFailed &&
		p.Status.Phase != v1.PodSucceeded {
		k.admission.Hold(p) // an earlier kubelet has admitted it: its place is not for others that come in with it
	}
	a := k.ensure(p.UID)
	p = stamped(p, a.born)
	k.o.Volumes.Observe(p)
	a.post(pod.Desired{Pod: p})
}

// stamped returns a pod of the API with the annotations by which upstream's kubelet tells sources apart, regardless of
// what its own annotations claim. born is when the node learned of the pod.
func stamped(p *v1.Pod, born time.Time) *v1.Pod {
	out := *p
	out.Annotations = maps.Clone(p.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[desired.SourceAnnotation] = "api"
	out.Annotations[static.SeenAnnotation] = born.Format(time.RFC3339Nano)
	return &out
}

func (k *Kubelet) podGone(p *v1.Pod) {
	if static.IsMirror(p) {
		k.statics.mirrorGone(p)
		return
	}

	k.status.Forget(p.UID)
	if a := k.pods.find(p.UID); a != nil {
		a.post(pod.SourceGone{Pod: stamped(p, a.born)})
	}
}

// ensure returns the actor of a pod, and starts it if there is none.
func (k *Kubelet) ensure(uid types.UID) *actor {
	return k.pods.ensure(uid, func() *actor {
		a, now := k.newActor(uid), time.Now()
		if k.pods.knowledge.sourcesReady.Load() {
			a.take(pod.SourcesReady{}, now)
		}
		if k.pods.knowledge.checked.Load() { // a pod that the node has never seen has nothing in the runtime
			a.take(pod.Checked{Runtime: &observed.Runtime{UID: string(uid)}, Began: now}, now)
		}
		k.running.Go(func() { a.run(k.ctx) })
		return a
	})
}

func (k *Kubelet) newActor(uid types.UID) *actor {
	return newActor(uid, services{status: k.status, probes: k.probes, admission: k.admission, burst: k.burst,
		statics: k.statics.set, meter: k.o.Meter, knowledge: &k.pods.knowledge, facts: k.o.Facts, events: k.o.API,
		tools: k.tools, tasks: &k.running, node: k.nodeFacts, finished: k.finished})
}

// finished forgets a pod that has nothing left on the node but folders, and has these removed.
func (k *Kubelet) finished(a *actor) {
	k.pods.forget(a.uid)
	k.admission.Release(a.uid)
	k.status.Forget(a.uid)
	k.statics.finished(a.uid, a.state.Last())
	k.o.Meter.Forget(a.state.Pod())
	k.o.Allot.Finished(a.uid)
	k.running.Go(func() { k.cleaner.finished(k.ctx, a.uid) })
}

// View returns all pods of the node as they are now.
func (k *Kubelet) View() []pod.View { return k.pods.View() }

// NodeAllocatable is what pods can have of the node.
func (k *Kubelet) NodeAllocatable() v1.ResourceList { return k.node.Allocatable(k.node.Object()) }

// NodeAddresses are the addresses that the node has now.
func (k *Kubelet) NodeAddresses() []v1.NodeAddress { return k.node.Addresses() }

// nodeFacts is what the node contributes to a decision about a pod.
func (k *Kubelet) nodeFacts() pod.Node {
	n := pod.Node{HostIPs: k.o.Node.IPs(), RuntimeName: k.runtime.version.Load().Name, MaxBackoff: k.o.MaxBackoff}
	if h := k.runtime.health.Load(); h != nil {
		n.RecursiveReadOnly = h.RecursiveReadOnly()
		if h := k.node.Health(*h); !h.NetworkReady {
			n.NetworkNotReady = h.NetworkMessage
		}
	}
	return n
}

// probed passes the changed result of a probe on to the pod.
func (k *Kubelet) probed(r probe.Result) {
	a := k.pods.find(r.Key.Pod)
	if a == nil {
		return
	}
	a.post(pod.Probed{Container: r.Key.Container, ContainerID: r.ContainerID, Kind: pod.ProbeKind(r.Kind),
		Success: r.Status == probe.Success})
}

// preempt tells pods to end because a critical one lacks a resource. They get their own time for it.
func (k *Kubelet) preempt(victims []types.UID, resource v1.ResourceName) {
	for _, uid := range victims {
		if a := k.pods.find(uid); a != nil {
			klog.FromContext(k.ctx).Info("A pod ends to make room for a critical one", "pod", uid, "resource", resource)
			a.post(pod.Evicted{Reason: preempting, Message: preemptMessage, Disruption: preemptDisruption,
				ByContainers: true})
			k.o.Meter.Preempted(string(resource))
		}
	}
}
