package cri

import (
	"os"
	"path/filepath"
	"testing"
)

// A program counts as loaded once its own process has the first library, not the launcher's or the wineserver; one that
// has ended need not be waited for.
func TestLoaded(t *testing.T) {
	const (
		began = "400000-401000 r--p 00000000 08:01 1 /usr/lib/wine/wine64\n"
		ready = began + "7b600000-7b601000 r--p 00000000 08:01 2 /usr/lib/wine/x86_64-windows/kernel32.dll\n"
	)

	for _, c := range []struct {
		name string
		maps map[string]string // of processes 10, the first, and 11 and 12, its children
		want bool
	}{
		{"Wine's loader", map[string]string{"10": began}, false},
		{"the launcher alone", map[string]string{"10": ready}, false},
		{"a launcher that has ended", nil, true},
		{"a zombie", map[string]string{"10": ""}, true},
		{"the program's beginning", map[string]string{"10": ready, "11": began}, false},
		{"another library of that name", map[string]string{"10": ready, "11": began + "1-2 r--p 0 0:0 3 /c/notkernel32.dll\n"}, false},
		{"the program", map[string]string{"10": ready, "11": began, "12": ready}, true},
	} {
		proc := t.TempDir()
		for pid, maps := range c.maps {
			if err := os.MkdirAll(filepath.Join(proc, pid, "task", pid), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proc, pid, "maps"), []byte(maps), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if c.maps["10"] != "" {
			// A thread that is not the first has made the second child.
			for thread, children := range map[string]string{"10": "11 ", "13": "12 "} {
				if err := os.MkdirAll(filepath.Join(proc, "10", "task", thread), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(proc, "10", "task", thread, "children"), []byte(children), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := (process{proc, 10}).loaded(); got != c.want {
			t.Errorf("%s: loaded is %v", c.name, got)
		}
	}
}
