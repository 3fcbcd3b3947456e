package volume

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestSubPathsAreHeld: until release, nobody can replace a sub path or a folder above it.
// Row 1.18.
func TestSubPathsAreHeld(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	prepare(t, m, pod)
	dir, _ := m.HostPath(pod.UID, "e")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}

	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "e", MountPath: "/x", SubPath: "a/b/made"}, {Name: "e", MountPath: "/f", SubPath: "file"}}
	mounts, release, err := m.Mounts(pod, c, nil)
	if err != nil {
		t.Fatal(err)
	}

	if info, err := os.Stat(mounts[0].HostPath); err != nil || !info.IsDir() {
		t.Errorf("the missing folder was not made: %v", err)
	}

	moves := map[string]string{"a": "a2", "a/b": "b2", "a/b/made": "m2", "file": "f2"}
	for from, to := range moves {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err == nil {
			t.Errorf("%s was moved away while it was held", from)
			_ = os.Rename(filepath.Join(dir, to), filepath.Join(dir, from))
		}
	}

	release()
	release() // a second call does nothing
	for _, from := range []string{"a/b/made", "a/b", "a", "file"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, moves[from])); err != nil {
			t.Errorf("%s is still held after release: %v", from, err)
		}
	}

	c.VolumeMounts = []v1.VolumeMount{{Name: "e", MountPath: "/x", SubPath: "a2"}, {Name: "none", MountPath: "/y"}}
	if _, _, err := m.Mounts(pod, c, nil); err == nil {
		t.Error("a volume that does not exist was mounted")
	}
	if err := os.Rename(filepath.Join(dir, "a2"), filepath.Join(dir, "a3")); err != nil {
		t.Errorf("held after a failure: %v", err)
	}
}
