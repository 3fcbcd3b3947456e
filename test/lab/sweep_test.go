package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestForgottenAddress: `porthole.exe routes` asks the container runtime at containerd's pipe which sandboxes it
// knows, and frees the address of one that it does not know some minutes later; that of a pod that runs stays.
// PORTHOLE_LAB_SWEEP=1 runs it (make test-cni).
func TestForgottenAddress(t *testing.T) {
	if os.Getenv("PORTHOLE_LAB_SWEEP") == "" {
		t.Skip("takes seven minutes: make test-cni")
	}
	pods, _ := echoPods(t)
	leases := filepath.Join(driveC("win01"), "var/lib/cni/networks/porthole")
	var node v1.Node
	object(t, &node, "node", "win01")
	var a, b int
	if _, err := fmt.Sscanf(node.Spec.PodCIDR, "10.244.%d.%d/", &a, &b); err != nil {
		t.Fatal(err)
	}
	// As host-local and win-bridge write it: the sandbox and the interface, in lines.
	forgotten := filepath.Join(leases, fmt.Sprintf("10.244.%d.%d", a, b+200))
	if err := os.WriteFile(forgotten, []byte("forgotten\r\neth0"), 0o644); err != nil {
		t.Fatal(err)
	}

	wait.NoError(t, 9*time.Minute, "the address to be free", func() error {
		if _, err := os.Stat(forgotten); !os.IsNotExist(err) {
			return fmt.Errorf("%s is still there: %v", forgotten, err)
		}
		return nil
	})
	pod := waitPod(t, pods["win01"].Name, podWait, isReady)
	if _, err := os.Stat(filepath.Join(leases, pod.Status.PodIP)); err != nil {
		t.Errorf("the address of a pod that runs is not held any more: %v", err)
	}
	if out, err := curl("porthole-lin01", "http://"+pod.Status.PodIP+":8080/"); err != nil {
		t.Errorf("the pod does not answer: %v %s", err, out)
	}
}
