package report

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"porthole.dev/porthole/cli/origin"
)

// TestLogsOfHosts: the log of a service of a host is read on its C: and nowhere else, and nobody waits for a pipe. The
// others are in the report.
func TestLogsOfHosts(t *testing.T) {
	dir := t.TempDir()
	logs, c := filepath.Join(dir, "hosts", "win01", "logs"), filepath.Join(dir, "hosts", "win01", "prefix", "drive_c")
	secret := filepath.Join(dir, "secret")
	err := errors.Join(os.MkdirAll(logs, 0o755), os.MkdirAll(c, 0o755), os.MkdirAll(filepath.Join(dir, "logs"), 0o755),
		os.WriteFile(secret, []byte("of root"), 0o600),
		os.WriteFile(filepath.Join(dir, "logs", "relay.log"), []byte("of the relay"), 0o644),
		os.WriteFile(filepath.Join(c, "good"), []byte("of the service"), 0o644),
		os.Symlink(secret, filepath.Join(c, "link")), syscall.Mkfifo(filepath.Join(c, "pipe"), 0o644),
		os.Symlink(secret, filepath.Join(logs, "elsewhere.log")))
	for _, name := range []string{"good", "link", "pipe", "missing"} {
		err = errors.Join(err, os.Symlink(filepath.Join(c, name), filepath.Join(logs, name+".log")))
	}
	if err != nil {
		t.Fatal(err)
	}

	entries, err := localLogs(origin.Flags{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range entries {
		got[strings.TrimPrefix(e.name, "logs/")] = string(e.data)
	}
	for name, want := range map[string]string{"logs/relay.log": "of the relay",
		"hosts/win01/good.log": "of the service", "hosts/win01/link.log": "could not be read",
		"hosts/win01/pipe.log": "it is not a file", "hosts/win01/elsewhere.log": "not on the C: of a host"} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 5 || strings.Contains(strings.Join(slices.Collect(maps.Values(got)), ""), "of root") {
		t.Errorf("the report has %q", got)
	}
}
