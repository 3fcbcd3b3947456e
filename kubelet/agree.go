package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/pod"
)

// windowsResize is why a Windows node refuses to resize pods, in upstream's words.
const windowsResize = "In-place pod resize is not supported on Windows"

// agreeResources finds out what the pod had been given, and asks the node for what it wants besides.
func (a *actor) agreeResources(ctx context.Context) {
	s := a.state
	if s.ResizeStep() == pod.ReadResizeNote {
		a.take(pod.Recalled{Note: a.effects.ReadNote(ctx)}, time.Now())
	}

	switch s.ResizeStep() {
	case pod.KeepRoom:
		a.admission.Keep(s.Wanted())
		a.take(pod.ResizeSettled{}, time.Now())
	case pod.DropResize:
		a.take(pod.ResizeSettled{}, time.Now())
	case pod.AskRoom:
		a.askRoom(ctx)
	}
}

// askRoom asks the node for other resources than the pod has.
func (a *actor) askRoom(ctx context.Context) {
	refusal := &admit.Refusal{Reason: v1.PodReasonInfeasible, Message: windowsResize}
	if !a.tools.Windows {
		if refusal = a.tools.Allot.ResizeRefusal(a.state.Pod(), a.state.Wanted()); refusal == nil {
			refusal = a.admission.Resize(a.state.Wanted(), a.tools.Allocatable(), time.Now())
		}
	}

	waited := pod.ResizeWaits(a.state)
	if refusal != nil {
		f := pod.ResizeRefused{Reason: v1.PodReasonDeferred, Message: refusal.Message}
		if refusal.Reason == v1.PodReasonInfeasible {
			f.Reason = v1.PodReasonInfeasible
			if waited != f.Reason {
				a.meter.Resizes().Infeasible(infeasible(refusal.Message))
			}
		}
		a.take(f, time.Now())
		return
	}

	if err := a.effects.WriteNote(a.state.AgreedNote()); err != nil { // else the next kubelet would not know: ask again
		klog.FromContext(ctx).Error(err, "A resize cannot be noted", "pod", a.uid)
		return
	}
	a.take(pod.ResizeAgreed{}, time.Now())
	if waited == v1.PodReasonDeferred {
		a.meter.Resizes().Late("pods_removed")
	}
}
