package kubelet

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/status"
)

// Kubelet routes facts to the actors of pods.
type Kubelet struct {
	o Options

	status    *status.Writer
	probes    *probe.Manager
	admission *admission
	burst     *burst
	statics   *staticPods
	folders   *folders
	node      *nodestatus.Node
	runtime   *runtimeWatch
	devices   devices
	claims    claims
	held      deviceList
	pressure  *pressure
	repin     *repin
	share     *share
	tools     *tools

	knowledge knowledge
	// shuttingDown: ShutDown was called, because the machine is about to shut down.
	shuttingDown atomic.Bool
	// full checks and unmounts are done once for the many reasons that come at the same time.
	checks, unmounts delayed
	unmountAgain     atomic.Int32 // how many searches for mounts in a row left some undecided or failed

	mu     sync.Mutex
	actors map[types.UID]*actor

	ctx     context.Context // of Run
	running group
}

// New makes a kubelet that does nothing yet.
func New(o Options) *Kubelet {
	if o.Cgroups == nil {
		o.Cgroups = cgroup.None{}
	}
	o.Cgroups = timedCgroups{o.Cgroups, o.Meter.Life()}
	o.Meter.Life().CgroupVersion(cgroup.Version())
	if o.Node.IPs == nil {
		o.Node.IPs = func() []string { return nil }
	}
	k := &Kubelet{o: o, status: status.New(o.API, o.Meter.Life().StatusWritten), actors: map[types.UID]*actor{},
		burst: newBurst(o.Burst), knowledge: knowledge{began: time.Now()},
		folders: &folders{pods: o.Volumes, logs: o.PodLogsDir, cgroups: o.Cgroups}}

	k.statics = &staticPods{set: static.NewSet(len(o.Static)), sources: o.Static, status: k.status, events: o.API,
		tasks: &k.running, actor: k.actor,
		restarted: o.Meter.Life().Restarted}

	k.runtime = &runtimeWatch{service: o.Runtime, changed: k.runtimeChanged}
	k.devices, k.held = newDevices(deviceOptions(k))
	k.claims = newClaims(k)
	k.node = nodestatus.New(o.Node, k.nodeLinks())
	k.pressure = &pressure{Pressure: o.Pressure, k: k}
	var p pins = noPins{}
	if o.Placing.Pins != nil {
		p = o.Placing.Pins
		o.Placing.Pins.Alive = podAlive(k)
		countPinned(o.Meter, o.Placing.Pins)
	}
	k.repin = newRepin(p, o.Placing, k.View)
	k.admission = k.newAdmission(p)
	k.probes = probe.New(probe.Options{Exec: o.Runtime.Exec, Report: k.probed, Event: o.API.PodEvent,
		Measure: o.Meter.Probe})
	k.share = newShare(o.Cgroups, func() []*v1.Pod { return sharing(k) }, o.API.NodeEvent)
	k.tools = newTools(&o, k.folders, k.NodeAllocatable)
	k.tools.shared = k.share.changed.Wake
	k.tools.devices, k.tools.claims, k.tools.pins, k.tools.placed = k.devices, k.claims, p, o.Placing
	k.tools.userNamespaces = func(handler string) error { return checkUserNamespaces(k.runtime.health.Load(), handler) }
	k.tools.recursive = func() []string { return recursiveHandlers(k.runtime.health.Load()) }
	return k
}

// newAdmission builds the admission of this node. Sysctls are checked against the version of the Linux kernel, so
// Windows nodes give none, which allows no sysctl that needs a certain version. Without an API server there is no node
// object to read again.
func (k *Kubelet) newAdmission(p pins) *admission {
	kernel := k.o.Node.Host.KernelVersion
	if k.o.Windows {
		kernel = ""
	}
	sysctls := admit.NewSysctls(kernel, k.o.UnsafeSysctls)

	d := &admission{Admitter: admit.New(), devices: k.devices, placing: newPlacing(&k.o, k.devices, p), pins: p,
		repin:     k.repin.changed,
		pressures: k.node.Pressures, known: k.node.Object, fresh: k.o.API.GetNode}
	if k.o.Standalone {
		d.fresh = nil
	}
	d.preempt = k.pressure.preempt
	d.closed = func() *admit.Refusal { return shutdownRefusal(k.shuttingDown.Load()) }
	d.facts = func(n *v1.Node) admit.Node {
		return admit.Node{Object: n, Allocatable: k.node.Allocatable(n), OS: k.o.Node.Host.OS, Sysctls: sysctls,
			Features:   k.o.Node.DeclaredFeatures,
			NoAppArmor: !k.o.Windows && !k.o.Node.Host.AppArmor}
	}
	d.Granted = func(uid types.UID) {
		if a := k.actor(uid, false); a != nil {
			a.wake.Wake()
		}
	}
	return d
}

// nodeLinks connects the node's status with the API and the runtime.
func (k *Kubelet) nodeLinks() nodestatus.Links {
	links := nodestatus.Links{API: k.o.API, Measure: k.o.Meter.Start(), Event: k.o.API.NodeEvent,
		ShuttingDown: k.shuttingDown.Load,
		Runtime: func() (runtime.Version, runtime.Health) {
			return *k.runtime.version.Load(), *k.runtime.health.Load()
		},
		PodCIDR: k.passPodCIDR, Devices: k.devices.Amounts}
	if k.o.Volumes.nodeVolumes != nil {
		links.VolumesInUse, links.Seen = k.o.Volumes.VolumesInUse, k.o.Volumes.ObserveNode
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

// ReportNode reports the node at once, and lets pods that waited for the network try again: after a change of the
// node's addresses, or when what NetworkAwaited of the node's options says has become "". It does not block.
func (k *Kubelet) ReportNode() {
	k.node.ReportSoon()
	k.each(func(a *actor) { a.wake.Wake() })
}

// runtimeChanged reports the node at once, and lets pods that waited for the network try again.
func (k *Kubelet) runtimeChanged(h runtime.Health) {
	k.node.ReportSoon()
	if h.NetworkReady {
		k.each(func(a *actor) { a.wake.Wake() })
	}
}

// Healthy returns nil as long as the kubelet does its rounds. What is wrong with the node is in the node's status.
func (k *Kubelet) Healthy() error { return k.runtime.stuck() }

func (k *Kubelet) each(f func(*actor)) {
	k.mu.Lock()
	list := make([]*actor, 0, len(k.actors))
	for _, a := range k.actors {
		list = append(list, a)
	}
	k.mu.Unlock()
	for _, a := range list {
		f(a)
	}
}

// podChanged takes a pod from the API.
func (k *Kubelet) podChanged(p *v1.Pod) {
	if static.IsMirror(p) {
		k.statics.mirrorChanged(p)
		return
	}

	k.status.Observe(p)
	if !k.knowledge.mayAdmit() && p.Status.StartTime != nil && p.Status.Phase != v1.PodFailed &&
		p.Status.Phase != v1.PodSucceeded {
		k.admission.Hold(p) // an earlier kubelet has admitted it: its place is not for others that come in with it
	}
	a := k.actor(p.UID, true)
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
	out.Annotations[pod.SourceAnnotation], out.Annotations[static.SeenAnnotation] = "api", born.Format(time.RFC3339Nano)
	return &out
}

func (k *Kubelet) podGone(p *v1.Pod) {
	if static.IsMirror(p) {
		k.statics.mirrorGone(p)
		return
	}

	k.status.Forget(p.UID)
	if a := k.actor(p.UID, false); a != nil {
		a.post(pod.SourceGone{Pod: stamped(p, a.born)})
	}
}

// actor finds the actor of a pod, and with make starts one.
func (k *Kubelet) actor(uid types.UID, make bool) *actor {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.actors[uid]
	if a != nil || !make {
		return a
	}

	a = k.newActor(uid)
	k.actors[uid] = a
	now := time.Now()
	if k.knowledge.sourcesReady.Load() {
		a.take(pod.SourcesReady{}, now)
	}
	if k.knowledge.checked.Load() { // a pod that the node has never seen has nothing in the runtime
		a.take(pod.Checked{Runtime: &pod.Runtime{UID: string(uid)}, Began: now}, now)
	}
	k.running.Go(func() { a.run(k.ctx) })
	return a
}

func (k *Kubelet) newActor(uid types.UID) *actor {
	return newActor(uid, services{status: k.status, probes: k.probes, admission: k.admission, burst: k.burst,
		statics: k.statics.set,
		meter:   k.o.Meter, tasks: &k.running, knowledge: &k.knowledge, facts: k.o.Facts, node: k.nodeFacts,
		finished: k.finished}, k.tools)
}

// finished forgets a pod that has nothing left on the node but folders, and removes these.
func (k *Kubelet) finished(a *actor) {
	k.mu.Lock()
	delete(k.actors, a.uid)
	k.mu.Unlock()

	k.admission.Release(a.uid)
	k.status.Forget(a.uid)
	k.statics.finished(a.uid, a.state.Last())
	k.o.Meter.Forget(a.state.Pod())

	if ids := k.o.Placing.IDs; ids != nil {
		ids.Release(a.uid)
	}
	k.running.Go(func() {
		if !k.knowledge.waitOrphanGrace(k.ctx) {
			return // the next kubelet finds them
		}
		k.removeSoon(a.uid)
		k.folders.removeDeadLinks()
		k.unmountAgain.Store(0)
		k.unmounts.soon(k.ctx, &k.running)
	})
}

// folderRetry are the waits before the folders of a pod are tried again: a file that the runtime still holds cannot be
// removed on Windows.
var folderRetry = retry.Backoff{First: time.Second}

const folderTries = 6 // in about half a minute

// removeSoon removes the folders of a pod that has ended, unless the pod comes back, which static ones do. After
// folderTries the full checks go on with it.
func (k *Kubelet) removeSoon(uid types.UID) {
	for try := 1; k.actor(uid, false) == nil; try++ {
		err := k.folders.remove(context.WithoutCancel(k.ctx), uid)
		if err == nil {
			return
		}
		klog.FromContext(k.ctx).Error(err, "Removing the folders of a pod failed", "pod", uid)
		if try == folderTries {
			return
		}

		select {
		case <-k.ctx.Done():
			return
		case <-time.After(folderRetry.Wait(try)):
		}
	}
}

// View returns all pods of the node as they are now.
func (k *Kubelet) View() []pod.View {
	var out []pod.View
	k.each(func(a *actor) {
		if v := a.view.Load(); v != nil {
			out = append(out, *v)
		}
	})
	return out
}

// NodeAllocatable is what pods can have of the node.
func (k *Kubelet) NodeAllocatable() v1.ResourceList { return k.node.Allocatable(k.node.Object()) }

// NodeAddresses are the addresses that the node has now.
func (k *Kubelet) NodeAddresses() []v1.NodeAddress { return k.node.Addresses() }

// nodeFacts is what the node contributes to a decision about a pod.
func (k *Kubelet) nodeFacts() pod.Node {
	n := pod.Node{HostIPs: k.o.Node.IPs(), RuntimeName: k.runtime.version.Load().Name, MaxBackoff: k.o.MaxBackoff}
	if h := k.runtime.health.Load(); h != nil {
		n.RecursiveReadOnly = recursiveHandlers(h)
		if h := k.node.Health(*h); !h.NetworkReady {
			n.NetworkNotReady = h.NetworkMessage
		}
	}
	return n
}

// probed passes the changed result of a probe on to the pod.
func (k *Kubelet) probed(r probe.Result) {
	a := k.actor(r.Key.Pod, false)
	if a == nil {
		return
	}
	a.post(pod.Probed{Container: r.Key.Container, ContainerID: r.ContainerID, Kind: pod.ProbeKind(r.Kind),
		Success: r.Status == probe.Success})
}
