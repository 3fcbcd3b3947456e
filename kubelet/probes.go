package kubelet

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/probe"
)

// watchProbes starts the probes of running containers and ends those of others.
func (a *actor) watchProbes() {
	s := a.state
	p := s.Pod()
	if p == nil || s.Runtime() == nil {
		return
	}

	ip := a.podIP()
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if c.ReadinessProbe == nil && c.LivenessProbe == nil && c.StartupProbe == nil {
				continue
			}

			key := probe.Key{Pod: a.uid, Container: c.Name}
			cur, ok := s.Runtime().Latest(c.Name)
			if !ok || cur.State != observed.Running {
				a.probes.Stop(key)
				continue
			}
			if s.Stopping() || s.Hooked(c.Name, cur.ID) {
				continue // a pod that ends keeps the readiness probes that it has; others wait for the hook
			}

			t := probe.Target{Pod: p, Container: c, ID: cur.ID, PodIP: ip, Started: cur.StartedAt}
			if s.ProbeTarget(c.Name) != cur.ID {
				t.AlreadyStarted = a.adoptProbe(c.Name, cur.ID)
			}
			a.probes.StartTarget(key, t)
		}
	}
}

// adoptProbe takes over what an earlier kubelet had found out about a container that still runs. It reports whether
// that counted as started.
func (a *actor) adoptProbe(name, id string) (started bool) {
	st := &a.state.Pod().Status
	for _, list := range [][]v1.ContainerStatus{st.ContainerStatuses, st.InitContainerStatuses} {
		for _, old := range list {
			if old.Name != name || old.State.Running == nil || old.ContainerID != a.node().RuntimeName+"://"+id {
				continue
			}
			started = old.Started != nil && *old.Started
			a.take(pod.ProbeAdopted{Container: name, ContainerID: id, Started: started, Ready: old.Ready}, time.Now())
			return started
		}
	}
	return false
}
