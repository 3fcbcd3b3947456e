// Package pod decides what a node does with one pod. It is pure: Reconcile takes all that is known about the pod and the
// time, and returns the status to publish, the actions to start, and when to look again. It never blocks and never fails.
//
//	facts: desired pod, runtime snapshot, volumes, images, probes, what is in flight, now
//	                     │
//	                 Reconcile
//	                     │
//	plan: status · actions (sandbox, image, container, stop, clean up) · events · next wake-up
//
// The life of a pod on the node:
//
//	state        leaves it when
//	running      deletion, a stop record, removal from the source, or a terminal phase → stopping
//	stopping     no container runs and none is being created → cleaning
//	cleaning     sandboxes stopped, volumes and cgroup gone → stopped
//	stopped      the pod is deleted from the API and its containers are removed → finished (the actor ends)
package pod
