package guest

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
		if got := Rooted(c.command); !slices.Equal(got, c.want) {
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
		{[]string{"/agnhost", "pause"}, []string{Launcher, `C:\agnhost.exe`, "/agnhost", "pause"}},
		{[]string{`C:\app.exe`, "/x"}, []string{Launcher, "found", `C:\app.exe`, "/x"}},
		{[]string{"cmd", "/c", "dir"}, []string{Launcher, "found", "cmd", "/c", "dir"}},
		{nil, nil},
	} {
		if got := Launched(c.command, "found"); !slices.Equal(got, c.want) {
			t.Errorf("%q became %q, want %q", c.command, got, c.want)
		}
	}
}

func TestProgramCandidates(t *testing.T) {
	cases := map[string]struct{ program, want string }{
		"full path":     {`C:\app.exe`, `C:\app.exe`},
		"no extension":  {`C:\app`, `C:\app.exe`},
		"on the path":   {"app", `C:\tools\app.exe`},
		"system folder": {"cmd", `C:\windows\system32\cmd.exe`},
		"relative":      {`bin\app.exe`, `C:\work\bin\app.exe`},
		"with slashes":  {"/app.exe", "/app.exe"},
	}
	for name, c := range cases {
		if got := ProgramCandidates(c.program, `C:\work`, `C:\tools;`); !slices.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
