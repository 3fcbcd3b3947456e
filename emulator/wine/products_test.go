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

// windowsTests are packages with code of their own for Windows. Their tests run here under Wine, and on Windows in the
// workflow, as they are. must names tests that must not be skipped.
var windowsTests = []struct {
	pkg  string
	must []string
}{
	{"internal/beneath", []string{"TestFile", "TestLinks"}},
	{"internal/platform", []string{"TestProtect", "TestProtectOldFiles", "TestProtectForeign", "TestHold",
		"TestReadUsage", "TestReadHost", "TestUplinks"}},
	{"kubelet/config", []string{"TestPathsAreOfTheFile"}},
	{"kubelet/logs", []string{"TestRotation", "TestPlantedLinks", "TestAnInterruptedRotationIsFinished"}},
	{"kubelet/serve", []string{"TestFollowThroughRotationUntilTheEnd", "TestNodeLogQuery"}},
	{"kubelet/volume", []string{"TestSubPathsAreHeld", "TestHeldFoldersStayFolders"}},
	{"kubelet/volume/files", []string{"TestLinksWork", "TestReadersDuringUpdates"}},
	{"kubelet/volume/disk", []string{"TestHeldByAnother"}},
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
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, out)
	}
	t.Logf("built in %v", time.Since(begin).Round(time.Second))

	strangers := foreignFolders(t, filepath.Join(p.DriveC(), "strangers"))
	for _, w := range windowsTests {
		t.Run(w.pkg, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			name := path.Base(w.pkg) + ".test.exe"
			cmd := tools.Command(ctx, p, `C:\products\`+name, "-test.v", "-test.timeout=2m")
			cmd.Env = append(cmd.Environ(), "PORTHOLE_TEST_STRANGERS="+strangers)
			cmd.Dir = filepath.Join("..", "..", w.pkg) // where testdata is
			out, err := cmd.CombinedOutput()
			// the first program of a prefix shares its output with Wine's services
			if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
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

// foreignFolders makes folders below dir that belong to an account which no program of the host has, as
// internal/platform TestProtectForeign wants them. It returns their folder's path on C:.
func foreignFolders(t *testing.T, dir string) string {
	t.Helper()
	for _, folder := range []string{"empty", "full", "above/dir"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "full", "file"), []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"empty", "full", "above"} {
		if err := os.Chown(filepath.Join(dir, folder), 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	return `C:\` + filepath.Base(dir)
}
