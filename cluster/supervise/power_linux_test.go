package supervise

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLostPower has run folders as a shutdown, a power failure and `porthole down` leave them.
func TestLostPower(t *testing.T) {
	listed := func(dir string) error { return WriteProcesses(dir, nil) }
	restarted := func(dir string) error { return os.WriteFile(filepath.Join(dir, bootFile), []byte("another"), 0o600) }
	empty := func(name string) func(string) error {
		return func(dir string) error { return os.Truncate(filepath.Join(dir, name), 0) }
	}
	down := func(dir string) error { return Shutdown(dir, 0) }

	for name, c := range map[string]struct {
		happened []func(dir string) error
		want     bool
	}{
		"nothing has run":                     {nil, false},
		"it runs, or was killed in this boot": {[]func(string) error{listed}, false},
		"a power failure":                     {[]func(string) error{listed, restarted}, true},
		"a power failure emptied young files": {[]func(string) error{listed, empty(processesFile), empty(bootFile)},
			true},
		"a shutdown":                           {[]func(string) error{listed, noteLeft, restarted}, false},
		"a shutdown, a start, a power failure": {[]func(string) error{listed, noteLeft, listed, restarted}, true},
		"down, and then a power failure":       {[]func(string) error{listed, down, restarted}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			for _, happens := range c.happened {
				if err := happens(dir); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := LostPower(dir); got != c.want || err != nil {
				t.Errorf("lost power: %t, %v; want %t", got, err, c.want)
			}
		})
	}
}
