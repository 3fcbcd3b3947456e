package pod

import (
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// View is a pod as the rest of the node may see it: the HTTPS server, statistics, log rotation. It never changes.
type View struct {
	// Pod has the status that the node last worked out.
	Pod *v1.Pod
	// SandboxID is the newest sandbox; empty if there is none.
	SandboxID string
	// Containers are the newest instances by container name. One that was never created is not in it.
	Containers map[string]ContainerView
	// Static says that the pod does not come from the API, Orphan that no source has it any more.
	Static, Orphan bool
	// Stopping says that the pod is to end or has ended, Stopped that none of its containers runs any more.
	Stopping, Stopped bool
	// Cleaned says that the pod has ended and that its volumes and its cgroup are gone.
	Cleaned bool
	// Logs are the log files of all instances that the runtime still has, by container ID.
	Logs map[string]string
}

// ContainerView is one container of a View.
type ContainerView struct {
	ID, LogPath string
	Running     bool
	Attempt     uint32
}

// View returns the pod as it is now, with the given status. The pod and what the runtime has of it must be known.
func (s *State) View(status v1.PodStatus) *View {
	shown := *s.pod
	shown.Status = status
	v := &View{Pod: &shown, Static: s.source.static, Orphan: s.source.gone, Cleaned: s.ending.cleaned,
		Containers: map[string]ContainerView{}, Logs: map[string]string{}}
	if b, ok := s.runtime.Sandbox(); ok {
		v.SandboxID = b.ID
	}

	for c := range s.runtime.All() {
		v.Logs[c.ID] = c.LogPath
		if s.runtime.Newest(c.Name).ID == c.ID {
			v.Containers[c.Name] = ContainerView{ID: c.ID, LogPath: c.LogPath, Running: c.State == observed.Running,
				Attempt: c.Attempt}
		}
	}
	return v
}
