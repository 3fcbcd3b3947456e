package cri

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
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
		proc := procOf(t, c.maps)
		if got := (process{proc, 10}).loaded(); got != c.want {
			t.Errorf("%s: loaded is %v", c.name, got)
		}
	}
}

// procOf makes a proc file system with these maps of processes; 11 and 12 are children of 10.
func procOf(t *testing.T, maps map[string]string) string {
	t.Helper()
	proc := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(proc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}

	for pid, text := range maps {
		write(pid+"/maps", text)
	}
	if maps["10"] != "" {
		write("10/task/10/children", "11 ")
		write("10/task/13/children", "12 ") // a thread that is not the first has made the second child
	}
	return proc
}

// TestWaitLoaded: what waits for a program goes on when it is loaded, and ends with its context if it never is.
func TestWaitLoaded(t *testing.T) {
	const began, ready = "1-2 r--p 0 0:0 1 /usr/lib/wine/wine64\n", "1-2 r--p 0 0:0 2 /usr/lib/wine/x86_64-windows/kernel32.dll\n"
	synctest.Test(t, func(t *testing.T) {
		proc := procOf(t, map[string]string{"10": ready, "11": began})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := (process{proc, 10}).wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a program that is never loaded: %v", err)
		}

		begin := time.Now()
		time.AfterFunc(100*time.Millisecond, func() {
			if err := os.WriteFile(filepath.Join(proc, "11", "maps"), []byte(ready), 0o644); err != nil {
				t.Error(err)
			}
		})
		if err := (process{proc, 10}).wait(t.Context()); err != nil || time.Since(begin) < 100*time.Millisecond {
			t.Errorf("a program that is loaded after 0.1 s: %v after %v", err, time.Since(begin))
		}
	})
}
