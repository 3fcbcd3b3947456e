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
