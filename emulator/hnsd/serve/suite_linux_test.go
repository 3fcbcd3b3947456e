package serve

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// TestSuite runs what our products rely on of HNS against this one: the test program of hns/hcn under Wine, for each
// build. The same suite runs against the fake that the products are tested with.
func TestSuite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	for _, build := range []int{17763, 20348, 26100} {
		t.Run(strconv.Itoa(build), func(t *testing.T) { testSuite(t, build, "") })
	}
	t.Run("ids as texts", func(t *testing.T) { testSuite(t, 20348, "ws2022-textids") })
}

func testSuite(t *testing.T, build int, profile string) {
	h := startProfileHost(t, build, profile)
	h.build(".", "go", "test", "-c", "-o", filepath.Join(h.prefix.DriveC(), "hcn.test.exe"),
		"porthole.dev/porthole/hns/hcn")
	before := h.counts()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\hcn.test.exe`, "-test.v", "-test.run", "TestLive")
	// a program that Wine could not start says nothing itself
	cmd.Env = append(cmd.Env, "PORTHOLE_LIVE_HNS=1", "WINEDEBUG=err+all")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, platform.StartInNetns(h.path, cmd))
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "--- PASS: TestLive ") {
		t.Errorf("%v\n%s", err, out.Bytes())
	}

	if after := h.counts(); after != before {
		t.Errorf("after the suite: %s, before: %s", after, before)
	}
	h.noDrift()
}
