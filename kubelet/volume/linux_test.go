//go:build linux

package volume

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"porthole.dev/porthole/kubelet/volume/disk"
)

func modeOf(t *testing.T, p string) os.FileMode {
	t.Helper()
	info, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestModesAndGroup(t *testing.T) {
	o := newObjects()
	o.secrets["s"] = &v1.Secret{Data: map[string][]byte{"k": []byte("v")}}
	m := newTestManager(t, o)
	m.opts.Tokens = &tokens{life: time.Hour}
	secret := vol("s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr(int32(0o400))}})
	empty := vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	tok := vol("t", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}})
	pod := podWith(secret, empty, tok)
	pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr(int64(1001))}
	prepare(t, m, pod)

	at := func(v, p string) string { d, _ := m.HostPath(pod.UID, v); return filepath.Join(d, p) }
	if got := modeOf(t, at("s", "k")); got != 0o400 {
		t.Errorf("secret file %v", got)
	}
	if got := modeOf(t, at("e", "")); got != os.ModeDir|0o777 {
		t.Errorf("emptyDir %v", got)
	}
	for _, above := range []string{"pods/uid-1", "pods/uid-1/volumes", "pods/uid-1/volumes/kubernetes.io~secret"} {
		if got := modeOf(t, filepath.Join(m.opts.RootDir, above)); got != os.ModeDir|0o750 {
			t.Errorf("%s has mode %v", above, got)
		}
	}

	var st unix.Stat_t
	if err := unix.Stat(at("t", "token"), &st); err != nil || st.Uid != 1001 || st.Mode&0o777 != 0o600 {
		t.Errorf("token: uid %d mode %o: %v", st.Uid, st.Mode, err)
	}

	grouped := podWith(secret, empty, tok)
	grouped.UID = "uid-2"
	grouped.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(2000))}
	prepare(t, m, grouped)
	at2 := func(v, p string) string { d, _ := m.HostPath("uid-2", v); return filepath.Join(d, p) }
	if got := modeOf(t, at2("s", "k")); got != 0o440 {
		t.Errorf("secret file with group %v", got)
	}
	if got := modeOf(t, at2("e", "")); got != os.ModeDir|os.ModeSetgid|0o777 {
		t.Errorf("emptyDir with group %v", got)
	}
	if err := unix.Stat(at2("t", "token"), &st); err != nil || st.Gid != 2000 || st.Mode&0o777 != 0o640 {
		t.Errorf("token with group: gid %d mode %o: %v", st.Gid, st.Mode, err)
	}
}

func TestMemoryVolumeAndRestart(t *testing.T) {
	m := newTestManager(t, newObjects())
	size := resource.MustParse("1Mi")
	pod := podWith(vol("m",
		v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &size}}))
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(2000))}
	prepare(t, m, pod)
	dir, _ := m.HostPath(pod.UID, "m")

	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.TMPFS_MAGIC || int64(st.Blocks)*st.Bsize != 1<<20 {
		t.Fatalf("type %x size %d: %v", st.Type, int64(st.Blocks)*st.Bsize, err)
	}
	const mode = os.ModeDir | os.ModeSetgid | os.ModeSticky | 0o777
	if got := modeOf(t, dir); got != mode {
		t.Errorf("mode %v, want %v", got, mode)
	}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "m", MountPath: "/m", SubPath: "new"}}
	if got, _, err := m.Mounts(pod, c, nil); err != nil || modeOf(t, got[0].HostPath) != mode {
		t.Errorf("a folder in it: %v %v, want the mode of the volume", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 2<<20), 0o600); err == nil {
		t.Error("wrote 2 MiB into a volume of 1 MiB")
	}

	m.Close()
	again := New(m.opts)
	prepare(t, again, pod)
	if err := again.Teardown(context.Background(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if table, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(table), m.opts.RootDir) {
		t.Error("a mount is left")
	}
}

func TestTeardownStopsAtForeignMount(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	prepare(t, m, pod)
	dir, _ := m.HostPath(pod.UID, "e")
	inner := filepath.Join(dir, "inner")
	if err := disk.MountMemory(inner, 1<<20, 0o755, nil); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(inner, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Teardown(context.Background(), pod.UID); err == nil || !strings.Contains(err.Error(), "is a mount") {
		t.Errorf("teardown: %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("file behind the mount: %v", err)
	}
	if err := disk.Unmount(inner); err != nil {
		t.Fatal(err)
	}
}

func TestSubPaths(t *testing.T) {
	o := newObjects()
	o.setMap("cm", map[string]string{"key": "1"})
	m := newTestManager(t, o)
	pod := podWith(cmVolume("cm", "cm"), vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	prepare(t, m, pod)
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{
		{Name: "cm", MountPath: "/key", SubPath: "key"},
		{Name: "e", MountPath: "/new", SubPathExpr: "made/$(POD)"},
	}

	expand := func(s string) (string, bool) { return "p", s == "POD" }
	for range 2 {
		got, _, err := m.Mounts(pod, c, expand)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(got[0].HostPath); string(data) != "1" || err != nil || !got[0].ReadOnly {
			t.Errorf("key: %q %v %+v", data, err, got[0])
		}
		if mode := modeOf(t, got[1].HostPath); mode != os.ModeDir|0o777 {
			t.Errorf("made folder has mode %v", mode)
		}
	}
	dir, _ := m.HostPath(pod.UID, "e")
	if _, err := os.Stat(filepath.Join(dir, "made/p")); err != nil {
		t.Error(err)
	}

	outside := tempDir(t)
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"out", "out/x", "out/x/y"} {
		c.VolumeMounts = []v1.VolumeMount{{Name: "e", MountPath: "/x", SubPath: sub}}
		_, _, err := m.Mounts(pod, c, nil)
		if err == nil || !strings.Contains(err.Error(), `failed to prepare subPath for volumeMount "e"`) ||
			strings.Contains(err.Error(), outside) {
			t.Errorf("%s: %v", sub, err)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("something was made outside: %v", entries)
	}
	if err := m.Teardown(context.Background(), pod.UID); err != nil {
		t.Fatal(err)
	}
}

// TestHostPathIsNotWaitedFor: a named pipe that takes the place of a host path's file while that is made is not waited
// for.
func TestHostPathIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(tempDir(t), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- makeFile(pipe) }()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		t.Error("it is waited for")
	}
}
