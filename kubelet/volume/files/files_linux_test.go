//go:build linux

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/testkit/mischief"
)

func TestInterruptedWriteIsFinished(t *testing.T) {
	dir := t.TempDir()
	want := Content{"a": {Data: []byte("1"), Mode: 0o644}, "d/b": {Data: []byte("2"), Mode: 0o644}}
	if _, err := Write(dir, want, Access{}); err != nil {
		t.Fatal(err)
	}

	stamp, _ := os.Readlink(filepath.Join(dir, dataLink))
	outside := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, damage := range map[string]func() error{
		"link to file missing":   func() error { return os.Remove(at("a")) },
		"stale timestamp folder": func() error { return os.Mkdir(at("..2020_stale"), 0o755) },
		"target folder missing":  func() error { return os.RemoveAll(at(stamp)) },
		"data link missing":      func() error { return os.Remove(at(dataLink)) },
		"target folder is a link out of the volume": func() error {
			return errors.Join(os.RemoveAll(at(stamp)), os.Symlink(outside, at(stamp)))
		},
		"data link leads out of the volume": func() error {
			return errors.Join(os.Remove(at(dataLink)), os.Symlink("/", at(dataLink)))
		},
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Write(dir, want, Access{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		have, _, err := readFiles(openRoot(t, dir))
		entries, _ := os.ReadDir(dir)
		data, _ := os.ReadFile(filepath.Join(dir, "d", "b"))
		if err != nil || !equalFiles(have, want) || len(entries) != 4 || string(data) != "2" {
			t.Errorf("%s: %v %d entries, d/b=%q: %v", name, have, len(entries), data, err)
		}
		stamp, _ = os.Readlink(filepath.Join(dir, dataLink))
	}
}

// TestWriterRace writes the files of a volume while a container puts links and folders in their way. Nothing outside is
// written, removed or given to another owner, and in the end the volume has the right files.
func TestWriterRace(t *testing.T) {
	dir, outside := t.TempDir(), mischief.Outside(t)
	group := int64(4321)
	want := func(i int) Content {
		text := []byte(fmt.Sprint(i))
		return Content{"secret": {Data: text, Mode: 0o666, UID: &group},
			"sub/secret": {Data: text, Mode: 0o666, UID: &group}, "c": {Data: text, Mode: 0o600}}
	}

	put := func(name, target string) {
		tmp := filepath.Join(dir, "evil")
		_ = os.Remove(tmp)
		if os.Symlink(target, tmp) == nil {
			_ = os.Rename(tmp, filepath.Join(dir, name))
		}
	}

	wrote, failed := 0, 0
	swaps, tries := mischief.Race(t, func(i int) {
		switch i % 5 {
		case 0:
			put("sub", outside+"/sub")
		case 1:
			put("secret", outside+"/secret")
		case 2:
			put("..data", outside)
		case 3:
			put("..data_tmp", outside)
		case 4: // the newest folder of files becomes a link
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), "..2") && e.IsDir() {
					old := filepath.Join(dir, e.Name())
					if os.Rename(old, old+"x") == nil {
						_ = os.Symlink(outside, old)
					}
				}
			}
		}
	}, func(i int) {
		if _, err := Write(dir, want(i), Access{Group: &group}); err != nil {
			failed++
			return
		}
		wrote++
	})

	t.Logf("%d swaps beside %d writes: %d done, %d refused", swaps, tries, wrote, failed)
	mischief.Unharmed(t, outside)

	for range 5 { // what the attacker left is cleaned up
		if _, err := Write(dir, want(-1), Access{Group: &group}); err == nil {
			break
		}
	}

	for _, name := range []string{"secret", "sub/secret", "c"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "-1" {
			t.Errorf("%s: %q %v", name, data, err)
		}
	}
	mischief.Unharmed(t, outside)
}
