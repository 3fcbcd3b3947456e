package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testUserNamespaces: a pod with hostUsers false has ids of its own, which the kernel shows in it, and its volumes are
// its root's. Another one has others, also after the kubelet was killed. A runtime without the feature is named in an
// event, and nothing runs.
func testUserNamespaces(t *testing.T, w *world) {
	make := func(name string, args ...string) *v1.Pod {
		p := newPod(name, args...)
		no := false
		p.Spec.HostUsers = &no
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		return p
	}
	n, err := w.Client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
	must(t, err)
	can := false
	for _, h := range n.Status.RuntimeHandlers {
		if h.Name == "" && h.Features != nil && h.Features.UserNamespaces != nil {
			can = *h.Features.UserNamespaces
		}
	}
	if !can {
		w.create(t, make("apart", "sleep"))
		w.untilEvent(t, "apart", "FailedCreatePodSandBox")
		w.remove(t, "apart", nil)
		t.Log("this runtime has no user namespaces: a pod that wants one is refused")
		return
	}

	// the root of a pod is nobody here, and has to come to its files through this folder
	must(t, os.Chmod(w.Path(), 0o711))
	w.create(t, make("holds", "sleep"))
	w.until(t, 30*time.Second, "holds", ready)
	w.kubelet.Kill()
	w.startKubelet()
	shows := w.create(t, make("shows", "cat", "/proc/self/uid_map", "/proc/self/gid_map"))
	done := w.until(t, 30*time.Second, "shows", inPhase(v1.PodSucceeded))
	got := strings.Fields(w.log(t, done, "app"))
	if want := "0 131072 65536 0 131072 65536"; strings.Join(got, " ") != want {
		t.Errorf("its ids are %s, want %s", got, want)
	}
	text, err := os.ReadFile(filepath.Join(w.KubeletRoot(node), "pods", string(shows.UID), "userns"))
	if want :=
		`{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`; err != nil || string(text) != want {
		t.Errorf("its file of ids is %s, %v", text, err)
	}
	for _, name := range []string{"holds", "shows"} {
		w.remove(t, name, nil)
	}
}
