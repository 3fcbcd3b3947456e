//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/mischief"
)

// TestSubPathRace is CVE-2017-1002101 and CVE-2021-25741: a container exchanges a folder of its volume for a link while
// the kubelet resolves a sub path through it. What is bound is never outside, and nothing is made there.
func TestSubPathRace(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	prepare(t, m, pod)
	dir, _ := m.HostPath(pod.UID, "e")

	outside := mischief.Outside(t)
	for _, p := range []string{"a/sub", "b"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", filepath.Join(dir, "inner")); err != nil {
		t.Fatal(err)
	}

	exchange := func(x, y string) {
		_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, x), unix.AT_FDCWD, filepath.Join(dir, y),
			unix.RENAME_EXCHANGE)
	}
	bound, refused := 0, 0
	c := &pod.Spec.Containers[0]
	paths := []string{"a/sub", "a/secret", "a", "a/new", "inner/x", "a/sub/secret"}
	swaps, tries := mischief.Race(t, func(i int) {
		if exchange("a", "link"); i%7 == 0 {
			exchange("b", "link")
		}
	}, func(i int) {
		sub := paths[i%len(paths)]
		if sub == "a/new" || sub == "inner/x" {
			sub = fmt.Sprintf("%s%d", sub, i)
		}
		c.VolumeMounts = []v1.VolumeMount{{Name: "e", MountPath: "/x", SubPath: sub}}

		mounts, _, err := m.Mounts(pod, c, nil)
		if err != nil {
			if refused++; strings.Contains(err.Error(), outside) {
				t.Errorf("the error names the node's folders: %v", err)
			}
			return
		}
		bound++
		at := mounts[0].HostPath
		if data, err := os.ReadFile(filepath.Join(at, "secret")); err == nil {
			t.Errorf("%s leads outside: %q", sub, data)
		}
		if data, err := os.ReadFile(at); err == nil && string(data) == "SECRET" {
			t.Errorf("%s is a file outside", sub)
		}
	})

	t.Logf("%d swaps beside %d tries: %d bound, %d refused", swaps, tries, bound, refused)
	if bound == 0 || refused == 0 {
		t.Error("the race never went both ways")
	}
	mischief.Unharmed(t, outside)
}

// TestHostsFileIsNotFollowedNorReadWhole: a hosts file that a container made huge is not read whole, and a link in its
// place is refused.
func TestHostsFileIsNotFollowedNorReadWhole(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith()
	c := &pod.Spec.Containers[0]
	h := Hosts{PodIPs: []string{"10.0.0.1"}, HostName: "p"}
	mount, err := m.EtcHosts(pod, c, h)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.Truncate(mount.HostPath, 64<<30); err != nil { // sparse: reading it would take all memory
		t.Fatal(err)
	}
	if _, err := m.EtcHosts(pod, c, h); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(mount.HostPath); err != nil || string(data) != string(HostsContent(h)) {
		t.Errorf("%.80q %v", data, err)
	}

	outside := mischief.Outside(t)
	if err := errors.Join(os.Remove(mount.HostPath),
		os.Symlink(filepath.Join(outside, "secret"), mount.HostPath)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.EtcHosts(pod, c, h); err == nil {
		t.Error("a link was written through")
	}
	mischief.Unharmed(t, outside)
}

// TestUsageFollowsNothing: only the volume itself is measured, not the targets of its links.
func TestUsageFollowsNothing(t *testing.T) {
	m := newTestManager(t, newObjects())
	size := int64(64 << 10)
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		vol("m", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}))
	prepare(t, m, pod)
	dir, _ := m.HostPath(pod.UID, "e")

	outside := mischief.Outside(t)
	big := filepath.Join(outside, "big")
	if err := os.WriteFile(big, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink(big, filepath.Join(dir, "file")),
		os.Symlink("..", filepath.Join(dir, "up")),
		os.Mkdir(filepath.Join(dir, "d"), 0o700), os.WriteFile(filepath.Join(dir, "d", "f"), make([]byte, size), 0o600),
		os.Link(filepath.Join(dir, "d", "f"), filepath.Join(dir, "again")))
	if err != nil {
		t.Fatal(err)
	}

	use := Measure{m}.Usage(context.Background(), pod.UID)
	if len(use) != 2 || use[0].Name != "e" || !use[0].Local || use[0].UsedBytes < uint64(size) ||
		use[0].UsedBytes > uint64(size)+64<<10 || use[0].CapacityBytes != 0 {
		t.Errorf("%+v", use)
	}
	if use[1].Name != "m" || use[1].Local || use[1].CapacityBytes == 0 {
		t.Errorf("%+v", use[1])
	}

	if err := os.Remove(big); err != nil {
		t.Fatal(err)
	}
	if err := m.Teardown(context.Background(), pod.UID); err != nil ||
		(Measure{m}).Usage(context.Background(), pod.UID) != nil {
		t.Errorf("after teardown: %v %v", Measure{m}.Usage(context.Background(), pod.UID), err)
	}
}
