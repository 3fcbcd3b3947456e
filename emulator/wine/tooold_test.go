//go:build linux

package wine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testTooOld: on a Windows before Server 2019 each program of a node ends at once, and says what that Windows lacks.
// The prefix only says of itself that it is one.
func testTooOld(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	programs, err := filepath.Abs("../../bin/windows")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(programs, "porthole.exe")); err != nil {
		t.Fatalf("%v (run `make programs`)", err)
	}
	setBuild := func(number string) {
		cmd := tools.Command(ctx, p, "reg", "add", `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`, "/v",
			"CurrentBuildNumber", "/d", number, "/f")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("reg add: %v\n%s", err, out)
		}
	}
	defer setBuild("20348")

	setBuild("14393")
	for _, args := range [][]string{
		{"porthole.exe", "kubelet", "--root-dir", `C:\kubelet`},
		{"porthole.exe", "routes", "--kubeconfig", `C:\absent`, "--cluster-cidr", "10.244.0.0/16", "--service-cidr",
			"10.96.0.0/12"},
		{"kube-proxy.exe", "--kubeconfig", `C:\absent`, "--network-name", "porthole"},
	} {
		out, err := tools.Command(ctx, p, filepath.Join(programs, args[0]), args[1:]...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%v: %v", args[:2], err)
		}
		for _, want := range []string{"14393 (Windows Server 2016)",
			"too old for a node: the oldest is 17763 (Windows Server 2019)", "network compartment (first in 16299",
			"HCN"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v lacks %q:\n%s", args[:2], want, out)
			}
		}
	}
}
