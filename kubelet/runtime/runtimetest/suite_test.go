package runtimetest

import (
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// TestSuite runs the behaviours on the fake. That they are containerd's is what test/kubelet shows.
func TestSuite(t *testing.T) {
	for _, b := range Suite() {
		t.Run(b.Name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := New("testkit.local/testapp:1")
				f.Latency = func(Call) time.Duration { return 20 * time.Millisecond }
				b.Run(t, Host{Conn: f.Dial(), Image: "testkit.local/testapp:1", Program: "/testapp",
					LogDir: t.TempDir()})
			})
		})
	}
}
