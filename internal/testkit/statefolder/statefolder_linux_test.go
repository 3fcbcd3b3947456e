package statefolder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// hosts answers `porthole host list`.
const hosts = `[ "$2" != list ] || echo '[{"name": "win01"}, {"name": "h1", "standalone": true}]'` + "\n"

// TestMakeIn: a folder that a process holds stays; one whose process has ended goes with its cluster.
func TestMakeIn(t *testing.T) {
	dir, parent := t.TempDir(), t.TempDir()
	calls := filepath.Join(dir, "calls")
	porthole := filepath.Join(dir, "porthole")
	if err := os.WriteFile(porthole, []byte("#!/bin/sh\necho \"$*\" >>"+calls+"\n"+hosts), 0o755); err != nil {
		t.Fatal(err)
	}

	held, remove, err := makeIn(parent, porthole)
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.MkdirTemp(parent, prefix) // as of a process that was killed
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(left, "hosts"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, removeSecond, err := makeIn(parent, porthole)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(held); err != nil {
		t.Error("a folder that a process holds: ", err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Error("a folder that nobody holds: ", err)
	}
	want := "host list --dir " + left + " -o json\nhost delete --dir " + left + " h1\ndown --purge --dir " + left + "\n"
	if got, err := os.ReadFile(calls); err != nil || string(got) != want {
		t.Errorf("called %q, %v", got, err)
	}

	for _, remove := range []func() error{remove, removeSecond} {
		if err := remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(held); !errors.Is(err, os.ErrNotExist) {
		t.Error("after remove: ", err)
	}
}
