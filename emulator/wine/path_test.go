package wine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLinuxPath(t *testing.T) {
	c := t.TempDir()
	if err := os.MkdirAll(filepath.Join(c, "Program Files", "App"), 0o755); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct{ in, want string }{
		{`C:\`, ""},
		{`c:`, ""},
		{`C:\etc\foo`, "etc/foo"},
		{`C:/etc/foo`, "etc/foo"},
		{`\etc\.\foo\`, "etc/foo"},
		{`etc/foo`, "etc/foo"},
		{`C:\PROGRAM FILES\app\New.TXT`, "Program Files/App/New.TXT"},
		{`C:\a\..\b`, "b"},
		{`\\?\C:\b`, "b"},
		{`\\?\Volume{00000000-0000-0000-0000-000000000043}\b`, "b"},
		{`\\?\volume{00000000-0000-0000-0000-000000000043}\`, ""},
		{`C:\..`, "!"},
		{`C:\a\..\..\b`, "!"},
		{`D:\a`, "!"},
		{`\\server\share`, "!"},
		{`C:\a:stream`, "!"},
		{"C:\\a\x00b", "!"},
	} {
		got, err := LinuxPath(c, tc.in)
		if tc.want == "!" {
			if err == nil {
				t.Errorf("%q: got %q, want an error", tc.in, got)
			}
			continue
		}
		if want := filepath.Join(c, tc.want); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", tc.in, got, err, want)
		}
	}
}

func TestWindowsPath(t *testing.T) {
	for path, want := range map[string]string{"/h/c": `C:\`, "/h/c/a/b": `C:\a\b`, "/h/x": "", "/h/cc": ""} {
		got, err := WindowsPath("/h/c", path)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: got %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestLookupBuild(t *testing.T) {
	if b, err := LookupBuild(20348); err != nil || b.Version()[:11] != "10.0.20348." {
		t.Errorf("20348: %v, %v", b, err)
	}
	for _, number := range []int{14393, 1} {
		if _, err := LookupBuild(number); err == nil {
			t.Errorf("build %d is accepted", number)
		}
	}
}

// TestOtherDrives: a path on a drive that the prefix has is below that drive's folder, and one on a drive that it does
// not have is refused.
func TestOtherDrives(t *testing.T) {
	p := Prefix{Dir: t.TempDir()}
	for _, dir := range []string{"drive_c", "drive_d/Programs"} {
		if err := os.MkdirAll(filepath.Join(p.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for windows, want := range map[string]string{`D:\programs\a.exe`: "drive_d/Programs/a.exe", `c:\b`: "drive_c/b",
		`E:\a`: "", `D:\..\drive_c`: ""} {
		got, err := p.LinuxPath(windows)
		if (err != nil) != (want == "") || err == nil && got != filepath.Join(p.Dir, want) {
			t.Errorf("%s: %q, %v, want %q", windows, got, err, want)
		}
	}
}
