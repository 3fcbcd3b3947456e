package kubelet

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/static"
)

// StaticSource gives pods that do not come from the API; package static has two.
type StaticSource interface {
	// Run calls deliver with all its pods at once, and again when they have changed, until ctx ends.
	Run(ctx context.Context, deliver func([]*v1.Pod), refused func(place string, err error))
}

// runStatic starts the sources. Their pods need no API server.
func (k *Kubelet) runStatic(ctx context.Context) {
	for i, source := range k.o.Static {
		k.running.Go(func() {
			deliver := recovering(ctx, "taking in static pods", func(pods []*v1.Pod) { k.staticPods(i, pods) })
			source.Run(ctx, deliver, func(place string, err error) {
				klog.FromContext(ctx).Error(err, "A manifest holds no pod that can run", "file", place)
				k.o.API.NodeEvent(v1.EventTypeWarning, "FailedValidation", fmt.Sprintf("Error validating pod from %s: %v", place, err))
			})
		})
	}
}

func (k *Kubelet) staticPods(source int, pods []*v1.Pod) {
	changed, gone, doubles := k.statics.Deliver(source, pods)
	for _, p := range doubles {
		k.o.API.PodEvent(p, "", v1.EventTypeWarning, "FailedValidation",
			fmt.Sprintf("Error validating pod %s/%s from %s due to duplicate pod name, ignoring", p.Namespace, p.Name, p.Annotations[static.SourceAnnotation]))
	}
	for _, p := range gone {
		if a := k.actor(p.UID, false); a != nil {
			a.post(pod.SourceGone{})
		}
	}
	for _, p := range changed {
		k.wantStatic(p)
	}
	k.endPredecessors()
}

// endPredecessors ends what the runtime has of static pods that were changed or removed while no kubelet ran. They need not
// wait for the API server: it may be one of those that wait for them.
func (k *Kubelet) endPredecessors() {
	for _, uid := range k.statics.Predecessors() {
		if a := k.actor(uid, false); a != nil {
			a.post(pod.SourcesReady{})
		}
	}
}

// wantStatic tells the actor of a static pod what it should run. One that is ending ends first; its successor is made
// when it has.
func (k *Kubelet) wantStatic(p *v1.Pod) {
	k.actor(p.UID, true).post(pod.Desired{Pod: p, Static: true})
}

// staticFinished lets the next pod of the same name begin.
func (k *Kubelet) staticFinished(uid types.UID) {
	next, again := k.statics.Finished(uid)
	if again != nil {
		k.wantStatic(again)
	}
	if a := k.actor(next, false); a != nil && next != "" {
		a.bell.Wake()
	}
}

// mirrorChanged takes a mirror from the API: its status is written from now on.
func (k *Kubelet) mirrorChanged(p *v1.Pod) {
	k.status.Observe(p)
	owner := k.statics.SetMirror(static.FullName(p.Namespace, p.Name), p.UID, p)
	if a := k.actor(owner, false); a != nil {
		a.bell.Wake()
	}
}

func (k *Kubelet) mirrorGone(p *v1.Pod) {
	k.status.Forget(p.UID)
	k.statics.SetMirror(static.FullName(p.Namespace, p.Name), p.UID, nil)
}
