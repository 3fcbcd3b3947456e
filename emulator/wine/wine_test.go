//go:build linux

package wine

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPrefix makes a template and a host's view of it, and asks a Windows program for the build that it sees.
func TestPrefix(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	tools, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	dir := t.TempDir()
	dlls := filepath.Join(dir, "dll")
	if out, err := exec.Command("sh", "../dll/build.sh", dlls).CombinedOutput(); err != nil {
		t.Fatalf("building DLLs: %v\n%s", err, out)
	}
	build, err := LookupBuild(20348)
	if err != nil {
		t.Fatal(err)
	}
	o := TemplateOptions{Dir: TemplateDir(dir, 20348), Build: build, DLLDir: dlls}
	if err := tools.EnsureTemplate(ctx, o); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := tools.EnsureTemplate(ctx, o); err != nil || time.Since(begin) > 2*time.Second {
		t.Fatalf("second time: %v after %v", err, time.Since(begin))
	}
	m := PrefixMount(o.Dir, filepath.Join(dir, "host"))
	for range 2 {
		if err := m.Ensure(); err != nil {
			t.Fatal(err)
		}
	}
	defer m.Unmount()
	p := Prefix{Dir: m.Target}
	defer tools.StopServer(context.Background(), p)
	cmd := tools.Command(ctx, p, "reg", "query", `HKLM\Software\Microsoft\Windows NT\CurrentVersion`, "/v", "CurrentBuildNumber")
	out, err := cmd.Output()
	if err != nil || !bytes.Contains(out, []byte("20348")) {
		t.Fatalf("reg query: %v\n%s", err, out)
	}
	t.Run("sockets", func(t *testing.T) { testSockets(ctx, t, tools, p) })
	if err := tools.StopServer(ctx, p); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(); err != nil {
		t.Fatal(err)
	}
	if mounted, err := IsMounted(m.Target); mounted || err != nil {
		t.Errorf("still mounted: %v, %v", mounted, err)
	}
	if hive, _ := os.ReadFile(filepath.Join(o.Dir, "system.reg")); !strings.Contains(string(hive), `"UBR"`) {
		t.Error("the template's registry has no UBR")
	}
}

// testSockets runs a Windows program that does UDP, TCP and name lookups with Go's package net.
func testSockets(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	exe := filepath.Join(p.DriveC(), "sockets.exe")
	compile := exec.CommandContext(ctx, "go", "build", "-o", exe, "./testdata/sockets")
	compile.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	out, err := tools.Command(ctx, p, `C:\sockets.exe`).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
