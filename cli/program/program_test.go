package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// TestLogFile: what a program that runs until it is stopped logs, and the error that ends it, is in its log file; so is a mistake
// in its flags, which are read later than the file is opened.
func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "routes.log")
	run := func(args ...string) (int, string) {
		c := &cobra.Command{Use: "routes", RunE: func(*cobra.Command, []string) error {
			klog.Background().Info("A line of work")
			return os.ErrPermission
		}}
		LogFlags(c.Flags())
		c.Flags().Bool(ServiceFlag, false, "")
		code := Run(Root(c), append([]string{"routes"}, args...)...)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return code, string(text)
	}

	code, text := run("--log-file="+path, "--windows-service")
	if code != 1 || !strings.Contains(text, `"A line of work"`) || !strings.Contains(text, `err="permission denied"`) {
		t.Errorf("exit code %d, log:\n%s", code, text)
	}
	code, text = run("--log-file", path, "--no-such-flag")
	if code != 2 || !strings.Contains(text, "unknown flag: --no-such-flag") {
		t.Errorf("a mistake in the flags: exit code %d, log:\n%s", code, text)
	}
}

func TestAsksForService(t *testing.T) {
	for arg, want := range map[string]bool{"--windows-service": true, "-windows-service": true, "--windows-service=true": true,
		"--windows-service=false": false, "windows-service": false, "--windows-services": false} {
		if got := asksForService(arg); got != want {
			t.Errorf("%s: %v", arg, got)
		}
	}
}
