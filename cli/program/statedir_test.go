package program

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestStateDir: a name stands for a folder, a folder that is given wins, and names that cannot be are refused.
func TestStateDir(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // empty: refused
	}{
		{nil, "/state"}, {[]string{"--name", "two"}, "/state-two"}, {[]string{"--name=a-2", "--dir=/x"}, "/x"},
		{[]string{"--dir=/x", "--name=a-2"}, "/x"},
		{[]string{"--name", ""}, ""}, {[]string{"--name", "../x"}, ""}, {[]string{"--name", "a."}, ""},
		{[]string{"--name", "a-"}, ""}, {[]string{"--name", "abcdefghijklmnopqrstu"}, ""},
	} {
		var dir string
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SetOutput(t.Output())
		StateDir(fs, &dir, "/state", "state folder")
		if err := fs.Parse(c.args); (err != nil) != (c.want == "") || err == nil && dir != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, dir, err, c.want)
		}
	}
}
