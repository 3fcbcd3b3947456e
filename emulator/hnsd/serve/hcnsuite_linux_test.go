package serve

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// TestHCNSuite runs hcsshim's own integration tests of package hcn, written for a real Windows host, under Wine
// against this HNS and its data plane. The build is the newest: older ones lack features that the suite uses.
func TestHCNSuite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startBridgeHost(t, 26100)
	exe := filepath.Join(h.prefix.DriveC(), "hcn.test.exe")
	h.build(".", "go", "test", "-c", "-trimpath", "-tags", "integration", "-o", exe, "github.com/Microsoft/hcsshim/hcn")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\hcn.test.exe`, "-test.v")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, platform.StartInNetns(h.path, cmd))
	exit := cmd.Wait()
	passed := len(regexp.MustCompile(`(?m)^--- PASS`).FindAll(out.Bytes(), -1))
	failed := regexp.MustCompile(`(?m)^--- FAIL: \w+`).FindAllString(out.String(), -1)
	t.Logf("%d tests passed", passed)
	if exit != nil || passed < 78 {
		t.Errorf("%d of 78 tests passed: %v %q\n%s", passed, exit, failed, out.Bytes())
	}
	h.noDrift()
}
