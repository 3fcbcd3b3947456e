package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/mischief"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// TestHostsFileIsNotWaitedFor: a named pipe in the place of the hosts file is refused at once.
func TestHostsFileIsNotWaitedFor(t *testing.T) {
	file := filepath.Join(tempDir(t), "etc-hosts")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- writeHosts(file, []byte("text")) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a named pipe was written")
		}
	case <-time.After(20 * time.Second):
		t.Error("it is still waiting for the pipe")
	}
}

// TestFileUsage is CVE-2020-8557: what a container writes to its hosts file and to its termination message is
// measured. What others put beside them, and the targets of links, is not.
func TestFileUsage(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith()
	mount, err := m.EtcHosts(pod, &v1.Container{Name: "c"}, Hosts{PodIPs: []string{"10.0.0.1"}, HostName: "p"})
	if err != nil {
		t.Fatal(err)
	}
	before := Measure{m}.FileUsage(pod.UID)
	if before.UsedInodes != 1 || before.UsedBytes == 0 {
		t.Errorf("hosts file: %+v", before)
	}

	messages := filepath.Join(m.opts.podDir(pod.UID), "containers", "c")
	outside := mischief.Outside(t)
	err = errors.Join(os.WriteFile(mount.HostPath, make([]byte, 1<<20), 0o644), os.MkdirAll(messages, 0o750),
		os.WriteFile(filepath.Join(messages, "00000001"), make([]byte, 2<<20), 0o666),
		os.WriteFile(filepath.Join(messages, "00000002"), make([]byte, 1<<20), 0o666),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(messages, "00000003")),
		os.Symlink(outside, filepath.Join(messages, "..", "d")))
	if err != nil {
		t.Fatal(err)
	}
	if u := (Measure{m}).FileUsage(pod.UID); u.UsedInodes != 3 || u.UsedBytes < 4<<20 || u.UsedBytes > 5<<20 {
		t.Errorf("with messages: %+v", u)
	}
	if u := (Measure{m}).FileUsage("nobody"); u != (measure.Usage{}) {
		t.Errorf("a pod without a folder: %+v", u)
	}
}
