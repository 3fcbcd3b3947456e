package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// makeStatus derives the pod's status from what is known. Conditions that others own stay as they are.
func makeStatus(s *State, d *decision, phase v1.PodPhase) v1.PodStatus {
	if s.pod == nil {
		return v1.PodStatus{}
	}

	last := lastStatus(s)
	st := v1.PodStatus{
		Phase: phase, QOSClass: s.pod.Status.QOSClass, StartTime: last.StartTime,
		NominatedNodeName:                    s.pod.Status.NominatedNodeName,
		ResourceClaimStatuses:                s.pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus:          s.pod.Status.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: s.pod.Status.NodeAllocatableResourceClaimStatuses,
		ObservedGeneration:                   s.pod.Generation,
		PodIPs:                               last.PodIPs, PodIP: last.PodIP,
	}

	if terminal(phase) {
		st.Reason, st.Message = last.Reason, last.Message
	}
	if st.StartTime == nil {
		t := metav1.NewTime(d.now.Truncate(time.Second))
		st.StartTime = &t
	}

	for i, ip := range d.node.HostIPs {
		if i == 0 {
			st.HostIP = ip
		}
		st.HostIPs = append(st.HostIPs, v1.HostIP{IP: ip})
	}

	podIPs(&st, s, d.node)
	for c := range desired.Init(s.pod) {
		st.InitContainerStatuses = append(st.InitContainerStatuses, containerStatus(s, d, c, phase))
	}
	for c := range desired.Apps(s.pod) {
		st.ContainerStatuses = append(st.ContainerStatuses, containerStatus(s, d, c, phase))
	}
	slices.SortFunc(st.ContainerStatuses, func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	for c := range desired.Ephemeral(s.pod) {
		st.EphemeralContainerStatuses = append(st.EphemeralContainerStatuses, containerStatus(s, d, c, phase))
	}

	st.AllocatedResources, st.Resources = wholeResources(s, last)
	setConditions(&st, s, last, d.now)
	shortenMessages(&st)
	return st
}

// maxMessages bounds the termination messages of all containers of a pod together, in bytes. It is upstream's value.
const maxMessages = 12 << 10

// shortenMessages cuts termination messages, so that each container gets an equal part of maxMessages.
func shortenMessages(st *v1.PodStatus) {
	lists := [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses}
	part := maxMessages / max(1, len(lists[0])+len(lists[1])+len(lists[2]))
	for _, list := range lists {
		for i := range list {
			for _, state := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if t := state.Terminated; t != nil && len(t.Message) > part {
					short := *t
					short.Message = strings.ToValidUTF8(t.Message[:part], "")
					state.Terminated = &short
				}
			}
		}
	}
}

// podIPs fills in the pod's addresses. As with upstream, addresses that the runtime reports come before the node's: on
// Windows a pod with hostNetwork has an address of its own unless its containers are HostProcess containers.
func podIPs(st *v1.PodStatus, s *State, f Node) {
	box := s.runtime.NewestSandbox()
	if box == nil {
		return
	}
	ips := box.IPs
	if len(ips) == 0 && (s.pod.Spec.HostNetwork || box.Ready && box.HostNetwork) {
		ips = f.HostIPs
	}
	if len(ips) == 0 {
		return
	}
	st.PodIP, st.PodIPs = ips[0], nil
	for _, ip := range ips {
		st.PodIPs = append(st.PodIPs, v1.PodIP{IP: ip})
	}
}

// containerStatus returns the status of one container, taken from its newest instance in the runtime. If the runtime
// has none, or only an older one than was reported, the instance was lost, and lostStatus says what can be said.
func containerStatus(s *State, d *decision, c *v1.Container, phase v1.PodPhase) v1.ContainerStatus {
	f := d.node
	cur, prev := shownInstances(s, c.Name)
	st := v1.ContainerStatus{Name: c.Name, Image: c.Image}
	no := false
	st.Started = &no
	if old := findStatus(s, c.Name); cur == nil || old != nil && uint32(old.RestartCount) > cur.Attempt {
		lostStatus(s, &st, c, phase)
		return st
	}

	st.ContainerID = f.RuntimeName + "://" + cur.ID
	st.RestartCount = int32(cur.Attempt)
	if cur.Image != "" {
		st.Image = cur.Image
	}

	st.ImageID = cur.ImageID
	st.User = cur.User
	st.VolumeMounts = mountStatuses(c, d.node.recursive(s.runtime.NewestSandbox()))
	if prev != nil && prev.State == observed.Exited {
		st.LastTerminationState.Terminated = terminatedState(prev, f)
	} else if old := findStatus(s, c.Name); prev == nil && old != nil && cur.Attempt > 0 {
		st.LastTerminationState = old.LastTerminationState
	}

	if cur.State == observed.Running {
		st.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(cur.StartedAt)}
		up := s.probes.started(c, cur)
		st.Started = &up
		st.Ready = !desired.EndsBeforeApps(s.pod, c) && s.probes.ready(c, cur)
		st.AllocatedResources = c.Resources.Requests
		st.Resources = shownResources(s, c, cur)
		return st
	}

	st.State.Terminated = terminatedState(cur, f)
	if desired.EndsBeforeApps(s.pod, c) {
		st.Ready = cur.ExitCode == 0
	}
	if s.ending.stop == nil && s.pod.DeletionTimestamp == nil && !terminal(phase) {
		waitAfterExit(s, d, &st, c)
	}

	return st
}

// waitAfterExit turns the status of an exited container into a waiting one if the container has to wait for its
// restart.
func waitAfterExit(s *State, d *decision, st *v1.ContainerStatus, c *v1.Container) {
	cur, _ := shownInstances(s, c.Name)
	if t := resetTrigger(s); t != nil && t.ID != cur.ID && isStale(s, cur) {
		st.LastTerminationState.Terminated, st.State, st.Ready = st.State.Terminated,
			v1.ContainerState{Waiting: resetWaiting()}, false
		return
	}
	if s.tasks.busy(startKey(c.Name)) || desired.IsEphemeral(s.pod, c.Name) || !runsAgain(s, c, cur) ||
		desired.EndsBeforeApps(s.pod, c) && cur.ExitCode == 0 {
		return
	}

	wait := &v1.ContainerStateWaiting{}
	at, entry := nextStart(backoffOf(s, c, cur, d.node), cur.FinishedAt, d.node)
	backingOff := d.now.Before(at)
	if fail := s.tasks.failures[c.Name]; fail != nil && !(backingOff && !d.now.Before(fail.RetryAt)) {
		wait.Reason, wait.Message = fail.Reason, fail.Message
	} else if img := s.images.failure(s.pod, c); img != nil && !backingOff {
		wait.Reason, wait.Message = img.Reason, img.Message
	} else if delay := at.Sub(cur.FinishedAt); delay > 0 && entry.Delay > 0 {
		wait.Reason = "CrashLoopBackOff"
		wait.Message = fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, c.Name,
			s.pod.Name, s.pod.Namespace, s.pod.UID)
	} else {
		return
	}
	st.LastTerminationState.Terminated = st.State.Terminated
	st.State = v1.ContainerState{Waiting: wait}
}

// lostStatus fills in the status of a container that the runtime does not have, or no longer has.
func lostStatus(s *State, st *v1.ContainerStatus, c *v1.Container, phase v1.PodPhase) {
	if old := findStatus(s, c.Name); old != nil {
		st.RestartCount, st.LastTerminationState = old.RestartCount, old.LastTerminationState
		st.ContainerID, st.ImageID = old.ContainerID, old.ImageID
		switch {
		case old.State.Terminated != nil && (terminal(phase) || !mayRunAgain(s, c, old) ||
			old.State.Terminated.ExitCode == 0 && initDone(s, c)):
			st.State, st.Ready, st.Started = old.State, old.Ready, old.Started
			return
		case old.State.Terminated != nil:
			st.LastTerminationState = old.State
		case old.State.Running != nil && s.runtime.read():
			lost := &v1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated"}
			if terminal(phase) {
				st.State.Terminated = lost
				return
			}
			lost.Message =
				"The container could not be located when the pod was deleted.  The container used to be Running"
			st.LastTerminationState.Terminated = lost
		case !s.runtime.read():
			st.State, st.Ready, st.Started = old.State, old.Ready, old.Started
			return
		}
	}

	if initDone(s, c) {
		*st = v1.ContainerStatus{Name: c.Name, Image: c.Image, ContainerID: st.ContainerID, ImageID: st.ImageID,
			Ready:   true,
			Started: st.Started, RestartCount: st.RestartCount, LastTerminationState: st.LastTerminationState}
		st.State.Terminated = &v1.ContainerStateTerminated{Reason: "Completed", ContainerID: st.ContainerID,
			Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exit normally"}
		return
	}

	if terminal(phase) && s.pod.Status.Phase == v1.PodRunning {
		st.State.Terminated = &v1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown",
			Message: "The container could not be located when the pod was terminated"}
		return
	}

	wait := &v1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if len(s.pod.Spec.InitContainers) > 0 && !desired.IsEphemeral(s.pod, c.Name) {
		wait.Reason = "PodInitializing"
	}
	if fail := s.tasks.failures[c.Name]; fail != nil {
		wait.Reason, wait.Message = fail.Reason, fail.Message
	} else if img := s.images.failure(s.pod, c); img != nil {
		wait.Reason, wait.Message = img.Reason, img.Message
	}

	st.State.Waiting = wait
}

// recursive reports whether the runtime can make mounts below a read-only mount of that sandbox read-only.
func (n Node) recursive(box *observed.Sandbox) bool {
	return box != nil && slices.Contains(n.RecursiveReadOnly, box.Handler)
}

// mountStatuses returns the status of each volume mount. A read-only mount says whether mounts below it are read-only
// too. possible reports whether the runtime can do that, which decides what IfPossible means.
func mountStatuses(c *v1.Container, possible bool) (out []v1.VolumeMountStatus) {
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		st := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if asked := m.RecursiveReadOnly; asked != nil &&
				(*asked == v1.RecursiveReadOnlyEnabled || possible && *asked == v1.RecursiveReadOnlyIfPossible) {
				mode = v1.RecursiveReadOnlyEnabled
			}
			st.RecursiveReadOnly = &mode
		}
		out = append(out, st)
	}
	return out
}

func terminatedState(c *observed.Container, f Node) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		StartedAt: metav1.NewTime(c.StartedAt), FinishedAt: metav1.NewTime(c.FinishedAt),
		ContainerID: f.RuntimeName + "://" + c.ID}
}
