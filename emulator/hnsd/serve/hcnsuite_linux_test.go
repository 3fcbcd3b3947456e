package serve

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// hcnSuiteFailures are the tests of the suite that need what the HNS of that build does not announce, as they would on
// a real host of it. docs/evidence/hcn-tests.md gives the reasons.
var hcnSuiteFailures = map[int][]string{
	17763: append([]string{"TestAccelnetNnvManagementMacAddresses", "TestAddL4WfpProxyPolicyOnEndpoint"},
		hcnSuiteFailures2022[1:]...),
	20348: hcnSuiteFailures2022,
	26100: {},
}

var hcnSuiteFailures2022 = []string{"TestAccelnetNnvManagementMacAddresses", "TestAddRemoveNetworACLPolicy",
	"TestApplyTierAclPolicyOnEndpoint",
	"TestCreateUpdateDeleteLoadBalancer", "TestGetLoadBalancerById", "TestLoadBalancerAddRemoveEndpoint"}

const hcnSuiteTests = 78

// TestHCNSuite runs hcsshim's own integration tests of package hcn, written for a real Windows host, under Wine
// against this HNS and its data plane, for each build.
// Rows 1.08, 1.58.
func TestHCNSuite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	for _, build := range []int{17763, 20348, 26100} {
		t.Run(strconv.Itoa(build), func(t *testing.T) { testHCNSuite(t, build) })
	}
}

func testHCNSuite(t *testing.T, build int) {
	h := startBridgeHost(t, build)
	exe := filepath.Join(h.prefix.DriveC(), "hcn.test.exe")
	h.build(".", "go", "test", "-c", "-tags", "integration,grpcnotrace", "-o", exe, "github.com/Microsoft/hcsshim/hcn")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\hcn.test.exe`, "-test.v")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, platform.StartInNetns(h.path, cmd))
	exit := cmd.Wait()
	passed := testNames("PASS", out.String())
	failed := testNames("FAIL", out.String())
	t.Logf("%d of %d tests passed; failed: %v", len(passed), hcnSuiteTests, failed)
	want := hcnSuiteFailures[build]
	if len(passed) != hcnSuiteTests-len(want) || !slices.Equal(failed, want) {
		t.Errorf("%d tests passed and these failed: %q; want %d and %q: %v\n%s", len(passed), failed,
			hcnSuiteTests-len(want), want, exit, out.Bytes())
	}
	h.noDrift()
}

// testNames lists the tests with that result, sorted.
func testNames(result, output string) []string {
	names := []string{}
	for _, m := range regexp.MustCompile(`(?m)^--- `+result+`: (\w+)`).FindAllStringSubmatch(output, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}
