package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/disk"
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
	c.VolumeMounts = []v1.VolumeMount{{Name: "e", MountPath: "/x", SubPath: "a/b/made"},
		{Name: "e", MountPath: "/f", SubPath: "file"}}
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

	if err := errors.Join(release(), release()); err != nil { // a second call does nothing
		t.Errorf("nothing became a link: %v", err)
	}
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

// TestHeldFoldersStayFolders: until release, the folder of a sub path is not empty, so that Windows makes it no link:
// something in it is held, which nobody can remove, or a file that the kubelet made. Nothing of that is left
// afterwards.
func TestHeldFoldersStayFolders(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	prepare(t, m, pod)
	dir, _ := m.HostPath(pod.UID, "e")
	empty, full := filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	theirs := filepath.Join(full, "theirs")
	if err := errors.Join(os.Mkdir(empty, 0o755), os.Mkdir(full, 0o755),
		os.WriteFile(theirs, []byte("1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	names := func(dir string) (out []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}

	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "e", MountPath: "/x", SubPath: "empty"},
		{Name: "e", MountPath: "/y", SubPath: "full"}}
	_, release, err := m.Mounts(pod, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if left := names(empty); len(left) != 1 || !strings.HasPrefix(left[0], ".porthole-") {
		t.Errorf("the empty folder has %q", left)
	} else if os.Remove(filepath.Join(empty, left[0])) == nil {
		t.Error("what keeps the folder could be removed")
	}
	if left := names(full); len(left) != 1 || left[0] != "theirs" {
		t.Errorf("the other folder has %q", left)
	}
	if os.Remove(theirs) == nil {
		t.Error("the only file of the other folder could be removed")
	}
	for _, folder := range []string{empty, full} {
		if err := makeLink(t, folder); err == nil {
			t.Errorf("%s became a link while it was held", folder)
		}
	}

	if err := release(); err != nil {
		t.Errorf("nothing became a link: %v", err)
	}
	if left := names(empty); len(left) != 0 {
		t.Errorf("afterwards the empty folder has %q", left)
	}
	if err := os.Remove(theirs); err != nil {
		t.Errorf("held after release: %v", err)
	}
}

// makeLink makes a folder that is open elsewhere a link, as whoever may write its attributes can.
func makeLink(t *testing.T, folder string) error {
	t.Helper()
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		t.Fatal(err)
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	h, err := windows.CreateFile(name, windows.FILE_WRITE_ATTRIBUTES, share, nil, windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	data, done := disk.ReparseData(`..\elsewhere`), uint32(0)
	return windows.DeviceIoControl(h, windows.FSCTL_SET_REPARSE_POINT, &data[0], uint32(len(data)), nil, 0, &done, nil)
}
