//go:build linux

package wine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// windowsTests are packages with code of their own for Windows. Their tests run here under Wine, and on Windows in the workflow, as
// they are. must names tests that must not be skipped.
var windowsTests = []struct {
	pkg  string
	must []string
}{
	{"internal/platform", []string{"TestProtect", "TestProtectOldFiles", "TestHold", "TestReadUsage", "TestReadHost", "TestUplinks"}},
	{"kubelet/config", []string{"TestPathsAreOfTheFile"}},
	{"kubelet/logs", nil},
	{"kubelet/serve", []string{"TestFollowThroughRotationUntilTheEnd", "TestNodeLogQuery"}},
	{"kubelet/volume", []string{"TestLinksWork", "TestReadersDuringUpdates", "TestSubPathsAreHeld", "TestHeldByAnother"}},
	{"hns/hcn", nil},
}

// testProducts runs the tests of windowsTests. go builds all of them at once, with the flags of the other builds.
func testProducts(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	dir := filepath.Join(p.DriveC(), "products")
	args := []string{"test", "-c", "-o", dir + "/"}
	for _, w := range windowsTests {
		args = append(args, "porthole.dev/porthole/"+w.pkg)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	build := exec.CommandContext(ctx, "go", args...)
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, out)
	}
	t.Logf("built in %v", time.Since(begin).Round(time.Second))

	for _, w := range windowsTests {
		t.Run(w.pkg, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			name := path.Base(w.pkg) + ".test.exe"
			cmd := tools.Command(ctx, p, `C:\products\`+name, "-test.v", "-test.timeout=2m")
			cmd.Dir = filepath.Join("..", "..", w.pkg) // where testdata is
			out, err := cmd.CombinedOutput()
			if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // the first program of a prefix shares its output with Wine's services
				t.Errorf("%s: %v\n%s", name, err, out)
			}
			for _, test := range w.must {
				if !regexp.MustCompile(`(?m)^--- PASS: ` + test + ` `).Match(out) {
					t.Errorf("%s did not pass:\n%s", test, out)
				}
			}
		})
	}
}
