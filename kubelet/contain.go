package kubelet

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/kubelet/pod"
)

// panicRest is how long a pod rests whose actor had a panic.
var panicRest = retry.Backoff{First: time.Second, Max: 5 * time.Minute}

// panicked reports a panic of the actor and returns how long to leave the pod alone. A pod that must end, and panics
// again, is reduced to what names it: then its containers still end.
func (a *actor) panicked(ctx context.Context, cause any) time.Duration {
	a.panics++
	klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", cause), "Pod actor panicked; other pods go on", "pod", a.uid,
		"times", a.panics,
		"stack", string(debug.Stack()))

	p := a.state.Pod()
	a.effects.Event(p, "", v1.EventTypeWarning, "FailedSync",
		fmt.Sprintf("Error syncing pod, skipping: internal error: %v", cause))
	if p != nil && a.panics > 1 && (a.state.Gone() || p.DeletionTimestamp != nil) {
		a.take(pod.Stripped{}, time.Now())
		a.status.Forget(a.uid)
	}
	return panicRest.Wait(a.panics)
}

// assert reports what must never be true. In a build with the tag debug it ends the turn, and so shows in the pod's
// events.
func (a *actor) assert(ctx context.Context, p *pod.Plan) {
	broken := pod.Broken(a.state, p)
	if s := a.state; s.Admitted() && s.Pod() != nil && !p.Stopped && !a.admission.Holds(a.uid) {
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

// recovering wraps take so that a panic is logged and the input dropped. The next version of the object, or the next
// full check, delivers it again.
func recovering[T any](ctx context.Context, what string, take func(T)) func(T) {
	return func(x T) {
		defer func() {
			if r := recover(); r != nil {
				klog.FromContext(ctx).Error(fmt.Errorf("panic in %s: %v", what, r), "Left out what cannot be taken in",
					"stack", string(debug.Stack()))
			}
		}()
		take(x)
	}
}
