package lifecycle

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissingParts hides Wine, part of the root folder and memory from one run of `up`, in a mount
// namespace of its own: one clear line, exit code 4, and nothing is made. Without the root folder `up` takes the
// machine's Wine.
func TestMissingParts(t *testing.T) {
	porthole, err := filepath.Abs("../../bin/porthole")
	if err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct{ hide, want string }{
		"Wine": {`mount -t tmpfs none "${0%/*}/roots"; mount -t tmpfs none /usr/lib/wine`,
			"wine64 is missing: apt-get install wine64"},
		"root": {`mount -t tmpfs none "${0%/*}/root/usr/lib/wine"`, "is damaged: it has "},
		"memory": {`sed 's/^MemAvailable:.*/MemAvailable: 102400 kB/' /proc/meminfo > "$1.memory"
			mount --bind "$1.memory" /proc/meminfo`,
			"100 MiB of memory are free"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			out, err := exec.Command("unshare", "-m", "sh", "-c", c.hide+` && exec "$0" up --dir "$1"`, porthole, dir).
				CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 4 || !strings.Contains(string(out), c.want) {
				t.Errorf("up: %v, %s; want exit code 4, %q", err, out, c.want)
			}
			if strings.Count(strings.TrimSpace(string(out)), "\n") > 0 {
				t.Errorf("more than one line: %s", out)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the state folder was made")
			}
		})
	}
}
