package wine

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseUnfit(t *testing.T) {
	two := "unfit 2\r\nregistry NtQueryValueKey: it is 10.0\r\nlink NtFsControlFile: no links: none\r\n"
	want := []Unfit{{"registry", "NtQueryValueKey", "it is 10.0"}, {"link", "NtFsControlFile", "no links: none"}}
	if got, err := parseUnfit(two); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseUnfit("unfit 0\n"); err != nil || len(got) > 0 {
		t.Errorf("none: %+v, %v", got, err)
	}
	for _, damaged := range []string{"", "unfit", "unfit x\n", "unfit 1\n", "unfit 0\nlink NtFsControlFile: no links\n",
		"unfit 1\nlink\n", "fixme:x\nunfit 0\n"} {
		if got, err := parseUnfit(damaged); err == nil {
			t.Errorf("%q is %+v, want an error", damaged, got)
		}
	}
}

// TestUnfitError: one sentence says which Wine, what does not fit, and what helps.
func TestUnfitError(t *testing.T) {
	err := error(&UnfitError{Version: "wine-11.5", Loader: "/opt/wine", Unfit: []Unfit{
		{"registry", "NtQueryValueKey", ""}, {"link", "NtFsControlFile", ""}, {"registry", "NtEnumerateValueKey", ""},
	}})
	for _, want := range []string{"wine-11.5 (/opt/wine)", "`make root`", "archive",
		"registry (NtQueryValueKey, NtEnumerateValueKey), link (NtFsControlFile);"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
	var refuses interface{ Refused() bool }
	if !errors.As(err, &refuses) || !refuses.Refused() {
		t.Error("commands do not take it for a refusal")
	}
}

func TestParseChecks(t *testing.T) {
	out := "ok pipe\r\nlinks: readlink x: no\r\nGetFileAttributesEx x: no\r\n\tmore\r\nregistry: it is \"10.0\"\r\n" +
		"ok job\r\nremove: no\r\n"
	said := parseChecks(out)
	for name, want := range map[string]string{"pipe": "", "links": "readlink x: no GetFileAttributesEx x: no more",
		"registry": `it is "10.0"`, "job": "", "remove": "no"} {
		if got, ok := said[name]; !ok || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, want)
		}
	}
	crashed := errors.New("exit status 2")
	for _, c := range []struct {
		checks []string
		want   string
	}{
		{[]string{"pipe", "job"}, ""}, {[]string{"pipe", "remove"}, "remove: no"},
		{[]string{"job", "owners"}, "owners: the program ended before it: exit status 2"},
	} {
		if got := wrong(c.checks, said, crashed); got != c.want {
			t.Errorf("%v: %q, want %q", c.checks, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		with, without string
		want          Mend
	}{
		{"", "no", Mend{"n", "w", MendNeeded, "no"}},
		{"", "", Mend{"n", "w", MendNotNeeded, ""}},
		{"broken", "no", Mend{"n", "w", MendFails, "broken"}},
		{"broken", "", Mend{"n", "w", MendFails, "broken"}},
	} {
		if got := (mendProbe{name: "n", what: "w"}).judge(c.with, c.without); got != c.want {
			t.Errorf("%q, %q: %+v, want %+v", c.with, c.without, got, c.want)
		}
	}
}

func TestSwitchedOff(t *testing.T) {
	dll := []byte("MZ porthole-mends: +pipe +remove +link \x00 +link \x00")
	off, err := switchedOff(dll, "link")
	if want := "MZ porthole-mends: +pipe +remove -link \x00 +link \x00"; err != nil || string(off) != want {
		t.Errorf("%q, %v", off, err)
	}
	for _, c := range []struct{ dll, mend string }{
		{string(dll), "job"}, {string(dll), "lin"}, {"MZ", "link"}, {"porthole-mends: +link ", "link"},
	} {
		if off, err := switchedOff([]byte(c.dll), c.mend); err == nil {
			t.Errorf("%+v: %q, want an error", c, off)
		}
	}
}

func TestOverridden(t *testing.T) {
	env := []string{"A=b", "WINEDLLOVERRIDES=mscoree,mshtml=;nsi,pdh,ws2_32=n,b"}
	for _, c := range []struct{ library, order, want string }{
		{"pdh", "b", "mscoree,mshtml=;nsi,ws2_32=n,b;pdh=b"},
		{"new", "n", "mscoree,mshtml=;nsi,pdh,ws2_32=n,b;new=n"},
		{"mshtml", "b", "mscoree=;nsi,pdh,ws2_32=n,b;mshtml=b"},
	} {
		want := []string{"A=b", "WINEDLLOVERRIDES=" + c.want}
		if got := overridden(env, c.library, c.order); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %s", c.library, got, c.want)
		}
	}
}

// TestUnfitFor: a function that several mends are done by unfits each of them.
func TestUnfitFor(t *testing.T) {
	list := []Unfit{
		{"file", "NtCreateFile", ""}, {"service", "NtQuerySystemInformation", ""}, {"link", "CreateFileW", ""},
	}
	for name, want := range map[string]string{
		"remove": "NtCreateFile", "link": "NtCreateFile, CreateFileW", "memory": "NtQuerySystemInformation", "pipe": "",
	} {
		if got := unfitFor(name, list); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
