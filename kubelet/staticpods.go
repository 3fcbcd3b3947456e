package kubelet

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/status"
)

// staticPods carries what static.Set decides to the actors: which static pods run, and whose mirror is there.
type staticPods struct {
	set     *static.Set
	sources []StaticSource
	status  *status.Writer
	events  eventAPI
	tasks   *group
	pods    *Pods
	// ensure returns the actor of a pod, and starts it if there is none.
	ensure func(uid types.UID) *actor
	// restarted is called for a pod that ended and begins again.
	restarted func()
}

// run starts the sources. Their pods need no API server.
func (s *staticPods) run(ctx context.Context) {
	for i, source := range s.sources {
		s.tasks.Go(func() {
			deliver := recovering(ctx, "taking in static pods", func(pods []*v1.Pod) { s.deliver(i, pods) })
			source.Run(ctx, deliver, func(place string, err error) {
				klog.FromContext(ctx).Error(err, "A manifest holds no pod that can run", "file", place)
				s.events.NodeEvent(v1.EventTypeWarning, "FailedValidation",
					fmt.Sprintf("Error validating pod from %s: %v", place, err))
			})
		})
	}
}

// deliver takes all pods of one source.
func (s *staticPods) deliver(source int, pods []*v1.Pod) {
	changed, gone, doubles := s.set.Deliver(source, pods)
	for _, p := range doubles {
		s.events.PodEvent(p, "", v1.EventTypeWarning, "FailedValidation",
			fmt.Sprintf("Error validating pod %s/%s from %s due to duplicate pod name, ignoring", p.Namespace, p.Name,
				p.Annotations[desired.SourceAnnotation]))
	}

	for _, p := range gone {
		if a := s.pods.find(p.UID); a != nil {
			a.post(pod.SourceGone{})
		}
	}
	for _, p := range changed {
		s.want(p)
	}
	s.endPredecessors()
}

// endPredecessors ends what the runtime has of static pods that were changed or removed while no kubelet ran. They
// need not wait for the API server: it may be one of those that wait for them.
func (s *staticPods) endPredecessors() {
	for _, uid := range s.set.Predecessors() {
		if a := s.pods.find(uid); a != nil {
			a.post(pod.SourcesReady{})
		}
	}
}

// want hands the actor of a static pod what it should run. A pod that is ending ends first; its successor is made when
// it has.
func (s *staticPods) want(p *v1.Pod) { s.ensure(p.UID).post(pod.Desired{Pod: p, Static: true}) }

// finished lets the next pod of the same name begin. A pod that starts anew goes on counting its restarts from last,
// which may be nil.
func (s *staticPods) finished(uid types.UID, last *v1.PodStatus) {
	next, again := s.set.Finished(uid)
	if again != nil {
		s.restarted()
		if last != nil {
			again = again.DeepCopy()
			again.Status.ContainerStatuses = last.ContainerStatuses
			again.Status.InitContainerStatuses = last.InitContainerStatuses
		}
		s.want(again)
	}
	if a := s.pods.find(next); a != nil && next != "" {
		a.wake.Wake()
	}
}

// mirrorChanged takes a mirror from the API: its status is written from now on.
func (s *staticPods) mirrorChanged(p *v1.Pod) {
	s.status.Observe(p)
	owner := s.set.SetMirror(static.FullName(p.Namespace, p.Name), p.UID, p)
	if a := s.pods.find(owner); a != nil {
		a.wake.Wake()
	}
}

func (s *staticPods) mirrorGone(p *v1.Pod) {
	s.status.Forget(p.UID)
	s.set.SetMirror(static.FullName(p.Namespace, p.Name), p.UID, nil)
}
