package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"h", "win01", "a-b", "abcdefghijklmno"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "1a", "-a", "a-", "A", "a_b", "a/b", "..", "a b", "abcdefghijklmnop", "tor", "lo",
		"sw0", "ä"} {
		if CheckName(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// TestStore finds hosts with and without a description, and Linux nodes.
func TestStore(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("empty folder: %v, %v", list, err)
	}
	for _, dir := range []string{"win01/prefix", "lin01/containerd"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, "hosts", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	if err := s.Describe(Host{Name: "h1", OS: "windows", Build: 26100, Netns: "porthole-h1",
		Standalone: true}); err != nil {
		t.Fatal(err)
	}
	list, err := s.List()
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	if h := list[0]; h.Name != "h1" || h.Build != 26100 || !h.Standalone || h.Dir != s.Folder("h1") {
		t.Errorf("%+v", h)
	}
	if list[1].OS != "linux" || list[2].OS != "windows" || list[2].Standalone || list[2].Netns != "porthole-win01" {
		t.Errorf("%+v", list[1:])
	}
	if _, err := s.Get("nix"); err == nil || !strings.Contains(err.Error(), "h1, lin01, win01") {
		t.Errorf("unknown host: %v", err)
	}
}
