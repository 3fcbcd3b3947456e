package cri

import (
	"slices"
	"testing"
)

// Only a program that is named from a root is named again, and no argument is.
func TestRooted(t *testing.T) {
	for _, c := range []struct{ command, want []string }{
		{[]string{"/bin/sh", "-c", "/bin/true"}, []string{`C:\bin\sh.exe`, "-c", "/bin/true"}},
		{[]string{`C:\app.exe`, "/x"}, []string{`C:\app.exe`, "/x"}},
		{[]string{"cmd", "/c", "dir"}, []string{"cmd", "/c", "dir"}},
		{nil, nil},
	} {
		before := slices.Clone(c.command)
		if got := rooted(c.command); !slices.Equal(got, c.want) {
			t.Errorf("%q became %q, want %q", c.command, got, c.want)
		}
		if !slices.Equal(c.command, before) {
			t.Errorf("%q was changed", before)
		}
	}
}

// Each command goes through the launcher, which gets a program apart from its command line only if rooted names it again.
func TestLaunched(t *testing.T) {
	for _, c := range []struct{ command, want []string }{
		{[]string{"/agnhost", "pause"}, []string{launcher, `C:\agnhost.exe`, "/agnhost", "pause"}},
		{[]string{`C:\app.exe`, "/x"}, []string{launcher, "found", `C:\app.exe`, "/x"}},
		{[]string{"cmd", "/c", "dir"}, []string{launcher, "found", "cmd", "/c", "dir"}},
		{nil, nil},
	} {
		if got := launched(c.command, "found"); !slices.Equal(got, c.want) {
			t.Errorf("%q became %q, want %q", c.command, got, c.want)
		}
	}
}
