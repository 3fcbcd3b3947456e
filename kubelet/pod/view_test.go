package pod

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// TestView: the newest instance of each container is shown, the logs of all of them, and the given status in place of
// the API's.
func TestView(t *testing.T) {
	s := State{pod: &v1.Pod{Status: v1.PodStatus{Phase: v1.PodPending}},
		runtime: runtimeObjects{Runtime: &observed.Runtime{}}}
	got := s.View(v1.PodStatus{Phase: v1.PodRunning})
	if got.SandboxID != "" || len(got.Containers) != 0 || got.Pod.Status.Phase != v1.PodRunning ||
		s.pod.Status.Phase != v1.PodPending {
		t.Errorf("without a sandbox: %+v", got)
	}

	s.runtime.Runtime = &observed.Runtime{Sandboxes: []observed.Sandbox{{ID: "box", Ready: true}},
		Containers: []observed.Container{
			{ID: "app1", Name: "app", SandboxID: "box", State: observed.Running, Attempt: 1, LogPath: "1.log"},
			{ID: "app0", Name: "app", SandboxID: "box", State: observed.Exited, LogPath: "0.log"},
			{ID: "new", Name: "new", SandboxID: "box", State: observed.Created, LogPath: "new.log"}}}
	got = s.View(v1.PodStatus{})
	want := map[string]ContainerView{"app": {ID: "app1", LogPath: "1.log", Running: true, Attempt: 1},
		"new": {ID: "new", LogPath: "new.log"}}
	if got.SandboxID != "box" || !reflect.DeepEqual(got.Containers, want) {
		t.Errorf("sandbox %q, containers %+v", got.SandboxID, got.Containers)
	}
	if logs := map[string]string{"app1": "1.log", "app0": "0.log", "new": "new.log"}; !reflect.DeepEqual(got.Logs,
		logs) {
		t.Errorf("logs: %v", got.Logs)
	}
}
