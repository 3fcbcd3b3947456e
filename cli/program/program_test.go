package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// TestLogFile: what a program that runs until it is stopped logs, and the error that ends it, is in its log file; so
// is a mistake in its flags, which are read later than the file is opened.
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
	for arg, want := range map[string]bool{"--windows-service": true, "-windows-service": true,
		"--windows-service=true":  true,
		"--windows-service=false": false, "windows-service": false, "--windows-services": false} {
		if got := asksForService(arg); got != want {
			t.Errorf("%s: %v", arg, got)
		}
	}
}

// TestMisused: wrong arguments of any command, and names that no command has, end with exit code 2.
func TestMisused(t *testing.T) {
	root := func() *cobra.Command {
		group := &cobra.Command{Use: "hosts", Args: cobra.NoArgs}
		group.AddCommand(&cobra.Command{Use: "list", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return nil }})
		two := &cobra.Command{Use: "path", Args: cobra.ExactArgs(2),
			RunE: func(*cobra.Command, []string) error { return os.ErrPermission }}
		return Root(group, two)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, 0}, {[]string{"hosts"}, 0}, {[]string{"hosts", "list"}, 0}, {[]string{"path", "a", "b"}, 1},
		{[]string{"path", "a"}, 2}, {[]string{"hosts", "list", "more"}, 2}, {[]string{"hosts", "lost"}, 2},
		{[]string{"nothing"}, 2}, {[]string{"hosts", "--flag"}, 2},
	} {
		if code := Run(root(), c.args...); code != c.code {
			t.Errorf("%q: exit code %d, want %d", c.args, code, c.code)
		}
	}
}

// TestHints: the error for a wrong name of a command or flag has those that are similar.
func TestHints(t *testing.T) {
	root := func() *cobra.Command {
		status := &cobra.Command{Use: "status", RunE: func(*cobra.Command, []string) error { return nil }}
		status.Flags().String("network", "", "")
		group := &cobra.Command{Use: "host"}
		group.AddCommand(&cobra.Command{Use: "hns", Run: func(*cobra.Command, []string) {}})
		return Root(status, group)
	}
	for _, c := range []struct{ args, want string }{
		{"statsu", "did you mean status?"},
		{"host hsn", "did you mean hns?"},
		{"other", "see `porthole --help`"},
		{"help statsu", "did you mean status?"},
		{"help host hsn", "did you mean hns?"},
		{"status --netwrok a", "did you mean --network?"},
		{"status --other", "see `porthole status --help`"},
		{"status --network", "flag needs an argument"},
	} {
		r := root()
		r.SetArgs(strings.Fields(c.args))
		if err := r.Execute(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

// unfit is an error that says by itself that nothing was changed.
type unfit struct{}

func (unfit) Error() string { return "a Wine" }
func (unfit) Refused() bool { return true }

// TestExitCode: an error is printed, unless the command has printed all. The exit code of a program that caused it is
// not porthole's.
func TestExitCode(t *testing.T) {
	ended := exec.Command("sh", "-c", "exit 7").Run()

	for _, c := range []struct {
		name string
		err  error
		want int
		says string
	}{
		{"none", nil, 0, ""},
		{"a code", fmt.Errorf("checking: %w", ExitCode(3)), 3, ""},
		{"refused", Refused(errors.New("no runc")), 4, "porthole: no runc\n"},
		{"refused by its own word", fmt.Errorf("creating host h1: %w", unfit{}), 4,
			"porthole: creating host h1: a Wine\n"},
		{"a cause", fmt.Errorf("stopping wineserver: %w", ended), 1, "porthole: stopping wineserver: exit status 7\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			old := os.Stderr
			os.Stderr = w
			got := report(c.err, false)
			os.Stderr = old
			w.Close()

			says, err := io.ReadAll(r)
			if got != c.want || string(says) != c.says || err != nil {
				t.Errorf("exit code %d, %q, %v", got, says, err)
			}
		})
	}
}
