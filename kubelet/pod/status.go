package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func lastStatus(s *State) *v1.PodStatus {
	switch {
	case s.Last != nil:
		return s.Last
	case s.Pod != nil:
		return &s.Pod.Status
	}
	return &v1.PodStatus{}
}

func startTime(s *State) *metav1.Time { return lastStatus(s).StartTime }

func findStatus(s *State, name string) *v1.ContainerStatus {
	last := lastStatus(s)
	for _, list := range [][]v1.ContainerStatus{last.ContainerStatuses, last.InitContainerStatuses, last.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// status writes the pod's status from what is known. Conditions that others own stay as they are.
func status(s *State, f Facts, now time.Time, phase v1.PodPhase) v1.PodStatus {
	if s.Pod == nil {
		return v1.PodStatus{}
	}
	last := lastStatus(s)
	st := v1.PodStatus{
		Phase: phase, QOSClass: s.Pod.Status.QOSClass, StartTime: last.StartTime, NominatedNodeName: s.Pod.Status.NominatedNodeName,
		ResourceClaimStatuses: s.Pod.Status.ResourceClaimStatuses, ObservedGeneration: s.Pod.Generation,
		PodIPs: last.PodIPs, PodIP: last.PodIP,
	}
	if terminal(phase) {
		st.Reason, st.Message = last.Reason, last.Message
	}
	if st.StartTime == nil {
		t := metav1.NewTime(now.Truncate(time.Second))
		st.StartTime = &t
	}
	for i, ip := range f.HostIPs {
		if i == 0 {
			st.HostIP = ip
		}
		st.HostIPs = append(st.HostIPs, v1.HostIP{IP: ip})
	}
	podIPs(&st, s, f)
	for i := range s.Pod.Spec.InitContainers {
		st.InitContainerStatuses = append(st.InitContainerStatuses, containerStatus(s, f, &s.Pod.Spec.InitContainers[i], phase))
	}
	for i := range s.Pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, containerStatus(s, f, &s.Pod.Spec.Containers[i], phase))
	}
	slices.SortFunc(st.ContainerStatuses, func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	for i := range s.Pod.Spec.EphemeralContainers {
		c := v1.Container(s.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		st.EphemeralContainerStatuses = append(st.EphemeralContainerStatuses, containerStatus(s, f, &c, phase))
	}
	conditions(&st, s, last, now)
	return st
}

func podIPs(st *v1.PodStatus, s *State, f Facts) {
	box := s.Runtime.sandbox()
	if box == nil {
		return
	}
	ips := box.IPs
	if s.Pod.Spec.HostNetwork || len(ips) == 0 && box.Ready && box.HostNetwork {
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

func containerStatus(s *State, f Facts, c *v1.Container, phase v1.PodPhase) v1.ContainerStatus {
	cur, prev := s.Runtime.latest(c.Name)
	st := v1.ContainerStatus{Name: c.Name, Image: c.Image}
	no := false
	st.Started = &no
	if cur == nil || cur.State == Created {
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
	if prev != nil && prev.State == Exited {
		st.LastTerminationState.Terminated = terminated(prev, f)
	} else if old := findStatus(s, c.Name); prev == nil && old != nil && cur.Attempt > 0 {
		st.LastTerminationState = old.LastTerminationState
	}
	if cur.State == Running {
		st.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(cur.StartedAt)}
		up := started(s, c, cur)
		st.Started = &up
		st.Ready = ready(s, c, cur)
		st.AllocatedResources = c.Resources.Requests
		st.Resources = c.Resources.DeepCopy()
		return st
	}
	st.State.Terminated = terminated(cur, f)
	if isInit(s.Pod, c.Name) && !isSidecar(c) {
		st.Ready = cur.ExitCode == 0
	}
	if s.Stop == nil && s.Pod.DeletionTimestamp == nil && !terminal(phase) {
		waitAfterExit(s, f, &st, c, cur)
	}
	return st
}

// waitAfterExit turns a terminated container that is to run again into a waiting one, when it has to wait.
func waitAfterExit(s *State, f Facts, st *v1.ContainerStatus, c *v1.Container, cur *Container) {
	if !restartable(s.Pod, c, cur) || isInit(s.Pod, c.Name) && !isSidecar(c) && cur.ExitCode == 0 {
		return
	}
	wait := &v1.ContainerStateWaiting{}
	at, entry := nextStart(backoffOf(s, c.Name, cur, f), cur.FinishedAt, f)
	if fail := s.Failures[c.Name]; fail != nil {
		wait.Reason, wait.Message = fail.Reason, fail.Message
	} else if delay := at.Sub(cur.FinishedAt); delay > 0 && entry.Delay > 0 {
		wait.Reason = "CrashLoopBackOff"
		wait.Message = fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, c.Name, s.Pod.Name, s.Pod.Namespace, s.Pod.UID)
	} else {
		return
	}
	st.LastTerminationState.Terminated = st.State.Terminated
	st.State = v1.ContainerState{Waiting: wait}
}

// lostStatus fills in the status of a container that the runtime does not have (yet, or any more).
func lostStatus(s *State, st *v1.ContainerStatus, c *v1.Container, phase v1.PodPhase) {
	if old := findStatus(s, c.Name); old != nil {
		st.RestartCount, st.LastTerminationState = old.RestartCount, old.LastTerminationState
		st.ContainerID, st.ImageID = old.ContainerID, old.ImageID
		switch {
		case old.State.Terminated != nil && (terminal(phase) || !restartableStatus(s, c, old)):
			st.State, st.Ready, st.Started = old.State, old.Ready, old.Started
			return
		case old.State.Terminated != nil:
			st.LastTerminationState = old.State
		case old.State.Running != nil && s.Runtime != nil:
			lost := &v1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated"}
			if terminal(phase) {
				st.State.Terminated = lost
				return
			}
			lost.Message = "The container could not be located when the pod was deleted.  The container used to be Running"
			st.LastTerminationState.Terminated = lost
		case s.Runtime == nil:
			st.State, st.Ready, st.Started = old.State, old.Ready, old.Started
			return
		}
	}
	if terminal(phase) && s.Pod.Status.Phase == v1.PodRunning {
		st.State.Terminated = &v1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown",
			Message: "The container could not be located when the pod was terminated"}
		return
	}
	wait := &v1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if len(s.Pod.Spec.InitContainers) > 0 {
		wait.Reason = "PodInitializing"
	}
	if fail := s.Failures[c.Name]; fail != nil {
		wait.Reason, wait.Message = fail.Reason, fail.Message
	} else if img := s.Images[c.Name]; img.Failure != nil {
		wait.Reason, wait.Message = img.Failure.Reason, img.Failure.Message
	}
	st.State.Waiting = wait
}

func isInit(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}

func terminated(c *Container, f Facts) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		StartedAt: metav1.NewTime(c.StartedAt), FinishedAt: metav1.NewTime(c.FinishedAt), ContainerID: f.RuntimeName + "://" + c.ID}
}
