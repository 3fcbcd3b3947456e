package attach

import (
	"io"
	"os"
	"strings"
	"testing"
)

// TestCheckInput: the configuration is checked and passed on. Without a command, and for VERSION, nothing is read: the pipe here stays
// open like a terminal.
func TestCheckInput(t *testing.T) {
	for _, c := range []struct{ command, input, want string }{
		{"", "", ""},
		{"VERSION", "", ""},
		{"ADD", `{"name":"porthole"}`, ""},
		{"DEL", "{\n \"name\": porthole}", "line 2, column 10"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if c.input != "" {
			if _, err := w.WriteString(c.input); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		before := os.Stdin
		os.Stdin = r
		t.Setenv("CNI_COMMAND", c.command)

		failed := checkInput()
		if (failed == nil) != (c.want == "") || failed != nil && !strings.Contains(failed.Msg, c.want) {
			t.Errorf("%q: %v, want an error with %q", c.command, failed, c.want)
		}
		if c.input != "" && failed == nil {
			if got, err := io.ReadAll(os.Stdin); err != nil || string(got) != c.input {
				t.Errorf("%q passed on %q: %v", c.command, got, err)
			}
		}
		os.Stdin = before
		_, _ = r.Close(), w.Close()
	}
}
