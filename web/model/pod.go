package model

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// startLimit is how long a pod may take to start before it counts as wrong: a Windows image of some gigabytes
	// takes minutes.
	startLimit = 5 * time.Minute
	// readyLimit is how long the containers of a pod may run without being ready: upstream's probes begin within some
	// seconds, and an application has this long to load.
	readyLimit = time.Minute
	// endLimit is how much longer than its grace period a pod may take to end.
	endLimit = time.Minute
)

// badWaits are the reasons for which a container waits although the kubelet has done what it can (kubernetes,
// pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime).
var badWaits = []string{"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
	"ErrImageInspect",
	"RegistryUnavailable", "SignatureValidationFailed", "CreateContainerConfigError", "CreateContainerError",
	"RunContainerError", "PostStartHookError"}

// buildPod judges a pod. warning is the newest one about it, or nil.
func buildPod(p *v1.Pod, warning *v1.Event, now time.Time) Pod {
	out := Pod{Key: p.Namespace + "/" + p.Name, Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName,
		IP:      p.Status.PodIP,
		Created: p.CreationTimestamp.UTC(), Phase: string(p.Status.Phase), Images: []string{}}
	for _, c := range p.Spec.Containers {
		if !slices.Contains(out.Images, c.Image) {
			out.Images = append(out.Images, c.Image)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		out.Restarts += int(c.RestartCount)
	}

	out.State, out.Phase, out.Problem = judgePod(p, warning, now)
	if out.Problem != nil {
		out.Problem.State = out.State
		out.Problem.Command = fmt.Sprintf("porthole why pod %s/%s", p.Namespace, p.Name)
	}
	return out
}

// judgePod returns how a pod is, the word for it that kubectl uses, and why it is not right.
func judgePod(p *v1.Pod, warning *v1.Event, now time.Time) (State, string, *Problem) {
	phase := string(p.Status.Phase)
	// The order is that of a pod's life, from its end: the first that fits says how it is.
	switch {
	case p.DeletionTimestamp != nil:
		return judgeEnding(p, now)
	case p.Status.Phase == v1.PodSucceeded:
		return Right, "Completed", nil
	case p.Status.Phase == v1.PodFailed:
		text := "failed"
		if p.Status.Reason != "" {
			phase = p.Status.Reason
		}
		return Wrong, phase, &Problem{Text: sentence("the pod "+text, p.Status.Reason, p.Status.Message),
			Since: lastChange(p)}
	}

	// A pod without a node can only wait for the scheduler.
	if c := condition(p, v1.PodScheduled); p.Spec.NodeName == "" {
		if c != nil && c.Status == v1.ConditionFalse {
			return Wrong, "Pending", &Problem{Text: sentence("no node takes the pod", c.Reason, c.Message),
				Since: c.LastTransitionTime.UTC()}
		}
		return Making, "Pending", &Problem{Text: "the scheduler has not chosen a node yet",
			Since: p.CreationTimestamp.UTC()}
	}

	if w, name := badWait(p); w != nil {
		return Wrong, w.Reason, &Problem{Text: sentence("container "+name+" waits", w.Reason, w.Message),
			Since: lastChange(p)}
	}
	if c := condition(p, v1.PodReady); c != nil && c.Status == v1.ConditionTrue {
		return Right, phase, nil
	}
	if p.Status.Phase == v1.PodRunning {
		return judgeUnready(p, warning, now)
	}
	return judgeStarting(p, warning, now)
}

// judgeEnding judges a pod that is being deleted: it becomes wrong endLimit after it should have
// ended.
func judgeEnding(p *v1.Pod, now time.Time) (State, string, *Problem) {
	since := p.DeletionTimestamp.UTC() // when it should have ended
	if now.Sub(since) > endLimit {
		return Wrong, "Terminating",
			&Problem{Text: fmt.Sprintf("the pod should have ended %s ago and its node %s has not said so",
				short(now.Sub(since)), dash(p.Spec.NodeName)), Since: since}
	}
	return Making, "Terminating", &Problem{Text: "the pod is being ended", Since: since}
}

// judgeUnready judges a pod that runs and is not ready: it becomes wrong readyLimit after its last
// change. The warning says more than the condition.
func judgeUnready(p *v1.Pod, warning *v1.Event, now time.Time) (State, string, *Problem) {
	since := lastChange(p)
	problem := &Problem{Text: "its containers run and are not ready", Since: since}
	if warning != nil {
		problem.Text = sentence(problem.Text, warning.Reason, warning.Message)
	} else if c := condition(p, v1.PodReady); c != nil {
		problem.Text = sentence(problem.Text, c.Reason, c.Message)
	}
	if now.Sub(since) > readyLimit {
		return Wrong, "NotReady", problem
	}
	return Making, "NotReady", problem
}

// judgeStarting judges a pod whose containers do not all run. The time counts from when it got its
// node.
func judgeStarting(p *v1.Pod, warning *v1.Event, now time.Time) (State, string, *Problem) {
	since := p.CreationTimestamp.UTC()
	if c := condition(p, v1.PodScheduled); c != nil {
		since = c.LastTransitionTime.UTC()
	}
	problem := &Problem{Text: "the pod starts on " + p.Spec.NodeName, Since: since}
	if warning != nil {
		problem.Text = sentence("the pod cannot start on "+p.Spec.NodeName+" yet", warning.Reason, warning.Message)
	}
	// A warning that repeats is an obstacle; a single one is common while secrets and volumes appear.
	if now.Sub(since) > startLimit || warning != nil && warning.Count > 2 {
		return Wrong, "ContainerCreating", problem
	}
	return Making, "ContainerCreating", problem
}

// badWait returns the first container that waits for something that does not come by itself.
func badWait(p *v1.Pod) (*v1.ContainerStateWaiting, string) {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && slices.Contains(badWaits, w.Reason) {
				return w, list[i].Name
			}
		}
	}
	return nil, ""
}

// condition returns a condition of a pod; nil if it is not there.
func condition(p *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// lastChange returns when the Ready condition changed, or else when the pod was made.
func lastChange(p *v1.Pod) time.Time {
	if c := condition(p, v1.PodReady); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.UTC()
	}
	return p.CreationTimestamp.UTC()
}
