package kubelet

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/meter"
)

// timedCgroups measures how long each change of a pod's cgroup takes, for the metric
// kubelet_cgroup_manager_duration_seconds.
type timedCgroups struct {
	cgroups
	life *meter.Life
}

// Ensure makes the pod's cgroup.
func (t timedCgroups) Ensure(p *v1.Pod) error {
	began := time.Now()
	defer func() { t.life.Cgroup("create", time.Since(began)) }()
	return t.cgroups.Ensure(p)
}

// Resize changes the pod's cgroup. What change takes is not the cgroup's time.
func (t timedCgroups) Resize(p *v1.Pod, change func() error) error {
	began, others := time.Now(), time.Duration(0)
	defer func() { t.life.Cgroup("update", time.Since(began)-others) }()
	return t.cgroups.Resize(p, func() error {
		began := time.Now()
		defer func() { others = time.Since(began) }()
		return change()
	})
}

// Share changes the cgroups above the pods'.
func (t timedCgroups) Share(pods []*v1.Pod) error {
	began := time.Now()
	defer func() { t.life.Cgroup("update", time.Since(began)) }()
	return t.cgroups.Share(pods)
}

// RemovePod removes the pod's cgroup.
func (t timedCgroups) RemovePod(uid types.UID) error {
	began := time.Now()
	defer func() { t.life.Cgroup("destroy", time.Since(began)) }()
	return t.cgroups.RemovePod(uid)
}

// CountPods counts the pods that the kubelet manages, for the metrics kubelet_active_pods, kubelet_desired_pods and
// kubelet_working_pods.
func CountPods(k *Kubelet) (all meter.Pods) {
	k.each(func(a *actor) {
		v := a.view.Load()
		if v == nil {
			if r := a.seen.Load(); r != nil && len(r.Sandboxes)+len(r.Containers) > 0 {
				all.AddOrphan()
			}
			return
		}

		w := meter.Working{Lifecycle: "sync", Config: "desired", Static: v.Static}
		switch {
		case v.Stopped:
			w.Lifecycle = "terminated"
		case v.Stopping:
			w.Lifecycle = "terminating"
		}
		if v.Orphan {
			w.Config = "orphan"
		}
		all.Add(v.Pod, w)
	})
	return all
}

// infeasible is why a resize can never be granted, in the few words that upstream counts by. The rest, which the node
// has too little for, has one of our own.
func infeasible(message string) string {
	switch {
	case message == windowsResize:
		return "windows"
	case strings.Contains(message, "CPU Manager policy"):
		return "guaranteed_pod_cpu_manager_static_policy"
	case strings.Contains(message, "Memory Manager policy"):
		return "guaranteed_pod_memory_manager_static_policy"
	}
	return "insufficient_node_allocatable"
}
