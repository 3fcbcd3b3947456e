package attach

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
)

// TestCheckInput: the configuration is checked and passed on. Without a command, and for VERSION, nothing is read: the
// pipe here stays open like a terminal.
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

// TestNonsenseIsRefused: a configuration that HNS would make nonsense of ends ADD before HNS is asked. DEL goes on: an
// earlier version may have attached the pod.
func TestNonsenseIsRefused(t *testing.T) {
	config := []byte(
		`{"name":"n","policies":[{"name":"EndpointPolicy","value":{"Type":"ROUTE","DestinationPrefix":"<your service cidr>","NeedEncap":true}}]}`)
	for command, want := range map[string]string{"ADD": `DestinationPrefix "<your service cidr>" is not a range`,
		"CHECK": "is not a range", "DEL": "", "GC": ""} {
		t.Setenv("CNI_COMMAND", command)
		asked := false
		err := serving("win-overlay", nil,
			func(context.Context, Call) error { asked = true; return nil })(&skel.CmdArgs{StdinData: config})
		if asked != (want == "") || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: asked %v, %v", command, asked, err)
		}
	}
}
