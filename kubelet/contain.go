package kubelet

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
)

// How long a pod rests whose actor had a panic: the first time, and at most.
const (
	firstRest = time.Second
	lastRest  = 5 * time.Minute
)

// poisoned reports a panic of the actor and says how long to leave the pod alone. A pod that must go and cannot be worked
// out even so is reduced to what names it: then its containers still end.
func (a *actor) poisoned(ctx context.Context, cause any) time.Duration {
	a.panics++
	klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", cause), "Pod actor panicked; other pods go on", "pod", a.uid, "times", a.panics,
		"stack", string(debug.Stack()))
	s := &a.state
	if s.Pod != nil {
		a.k.o.API.PodEvent(s.Pod, "", v1.EventTypeWarning, "FailedSync", fmt.Sprintf("Error syncing pod, skipping: internal error: %v", cause))
	}
	if s.Pod != nil && a.panics > 1 && (s.Gone || s.Pod.DeletionTimestamp != nil) {
		a.strip()
	}
	return min(firstRest<<min(a.panics-1, 10), lastRest)
}

// strip leaves of the desired pod only what is needed to end it.
func (a *actor) strip() {
	s, p := &a.state, a.state.Pod
	grace := int64(1)
	s.Pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, Generation: p.Generation,
		ResourceVersion: p.ResourceVersion, DeletionTimestamp: p.DeletionTimestamp, DeletionGracePeriodSeconds: &grace}}
	s.Pod.Status.Phase, s.Pod.Status.StartTime = v1.PodFailed, p.Status.StartTime
	s.Last, s.Stop = nil, nil
	a.k.status.Forget(a.uid)
}

// guarded runs a part of a pod's work that is outside of its actor. A panic in it is an error of this pod.
func (a *actor) guarded(what string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error in %s: %v", what, r)
			klog.FromContext(a.k.ctx).Error(err, "Pod task panicked; other pods go on", "pod", a.uid, "stack", string(debug.Stack()))
		}
	}()
	return do()
}

// taskFailed notes the failure of an action that could not say itself how it ended.
func taskFailed(s *pod.State, x pod.Action, err error) {
	const wait = 10 * time.Second
	at := time.Now().Add(wait)
	switch x.Kind {
	case pod.PrepareVolumes:
		s.VolumeFailure = &pod.Failure{Message: err.Error(), RetryAt: at}
	case pod.EnsureImage:
		s.Images[x.Name] = pod.Image{Failure: &pod.Failure{Reason: "ErrImagePull", Message: err.Error(), RetryAt: at}}
	case pod.StartContainer:
		fail(s, x.Name, err, "CreateContainerError", wait)
	case pod.CreateSandbox, pod.Cleanup:
		fail(s, x.Key, err, "", wait)
	case pod.StopSandbox:
		fail(s, pod.StopSandboxKey, err, "", wait)
	case pod.RemoveContainer, pod.RemoveSandbox:
		fail(s, pod.RemoveKey, err, "", wait)
	default:
		fail(s, x.Key, err, "", wait)
	}
}

// assert reports what must never be so. In a build with the tag debug it ends the turn, and with it shows in the pod's
// events.
func (a *actor) assert(ctx context.Context, p *pod.Plan) {
	broken := pod.Broken(&a.state, p)
	if s := &a.state; s.Admitted && s.Pod != nil && !p.Stopped && !a.k.admit.holds(a.uid) {
		broken = append(broken, "an admitted pod does not hold its place")
	}
	if len(broken) == 0 {
		return
	}
	text := strings.Join(broken, "; ")
	klog.FromContext(ctx).Error(nil, "Invariant broken", "pod", a.uid, "what", text, "plan", p.Dump())
	if debugBuild {
		panic("invariant broken: " + text)
	}
}

// contained is f that outlives a panic: what came from outside and cannot be taken in is told of and left out, and
// everything else goes on. What was missed, the next version or the next audit brings again.
func contained[T any](ctx context.Context, what string, f func(T)) func(T) {
	return func(x T) {
		defer func() {
			if r := recover(); r != nil {
				klog.FromContext(ctx).Error(fmt.Errorf("panic in %s: %v", what, r), "Left out what cannot be taken in",
					"stack", string(debug.Stack()))
			}
		}()
		f(x)
	}
}
