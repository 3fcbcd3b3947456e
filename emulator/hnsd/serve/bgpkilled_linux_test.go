package serve

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/routers"
)

// TestBGPKilled kills the agent of the mode bgp after each of its changes, as testKilled does for other modes, beside
// a router.
func TestBGPKilled(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	if os.Getenv("PORTHOLE_NETWORKS") != "long" {
		t.Skip("takes long: PORTHOLE_NETWORKS=long, or `make test-networks`")
	}
	h := startBridgeHost(t, 20348)
	routers.BIRD(t, h.out, routers.Announces("10.99.7.1", "10.99.7.21",
		map[string]string{"198.18.2.0/24": "10.99.7.1", "198.18.3.0/24": "10.99.7.2", "198.18.4.0/24": "10.99.7.3"}))
	h.build(".", "go", "test", "-c", "-o", filepath.Join(h.prefix.DriveC(), "killtest.exe"),
		"porthole.dev/porthole/routes/killtest")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()

	cmd, out := h.tools.Command(ctx, h.prefix, `C:\killtest.exe`, "-test.v", "-test.run=^TestBGP$"), &testkit.Buffer{}
	cmd.Env = append(cmd.Env, "PORTHOLE_NETWORKS=long")
	cmd.Stdout, cmd.Stderr = out, out
	must(t, platform.StartInNetns(h.path, cmd))
	err := cmd.Wait()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(out.String(), "--- PASS: TestBGP ") {
		t.Errorf("it fails: %v", err)
	}
}
