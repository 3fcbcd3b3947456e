package runtime

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/testkit/wait"
)

// testService finds containerd.exe as a Windows service that has registered itself. It runs again after it was killed,
// more often than its own recovery actions would start it, and after a reboot, which stops it in its order.
func (w *world) testService(t *testing.T) {
	before := w.containerdService(t)
	if before.Status.State != scm.Running || before.Start != scm.StartAutomatic ||
		!strings.HasSuffix(before.Path, `\containerd.exe" --run-service --log-file C:\var\log\containerd.log`) {
		t.Errorf("the service: %+v", before)
	}
	for range 3 {
		before = w.containerdService(t)
		w.must("run", w.name, "--", "taskkill", "/IM", "containerd.exe", "/F")
		w.awaitService(t, before.Status.PID)
	}

	out := w.must("reboot", w.name)
	if !strings.Contains(out, "service containerd: shutdown") {
		t.Errorf("the reboot says:\n%s", out)
	}
	w.awaitService(t, 0)
}

// containerdService is the service as the host's manager knows it. The manager is not there at once when the host has
// started.
func (w *world) containerdService(t *testing.T) scm.Listed {
	t.Helper()
	var list []scm.Listed
	wait.NoError(t, time.Minute, "the host's services", func() error {
		out, err := exec.CommandContext(t.Context(), w.porthole, "host", "services", "--dir", w.dir, w.name, "-o",
			"json").Output()
		if err != nil {
			return err
		}
		return json.Unmarshal(out, &list)
	})
	if len(list) != 1 || list[0].Name != "containerd" {
		t.Fatalf("services: %+v", list)
	}
	return list[0]
}

// awaitService waits until the service runs in another process than before.
func (w *world) awaitService(t *testing.T, before uint32) {
	t.Helper()
	wait.True(t, time.Minute, "the service containerd runs again", func() bool {
		s := w.containerdService(t)
		return s.Status.State == scm.Running && s.Status.PID != before
	})
	wait.True(t, time.Minute, "containerd answers", func() bool { // the reboot has ended the relay
		// Wine 8.0 leaves a lock that a thread held at the program's end, and then a program can hang there.
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		return exec.CommandContext(ctx, w.porthole, "host", "ctr", "--dir", w.dir, w.name, "images").Run() == nil
	})
}
