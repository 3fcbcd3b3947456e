package paths

import (
	"strings"
	"testing"
)

// Row 1.94.
func TestWindowsPaths(t *testing.T) {
	for in, want := range map[string]string{
		`C:\etc\foo`:          `C:\etc\foo`,
		`C:/etc/foo`:          `C:\etc\foo`,
		`c:/etc//foo/`:        `c:\etc\foo`,
		`/cache`:              `C:\cache`,
		`\cache`:              `C:\cache`,
		`cache`:               `C:\cache`,
		`/`:                   `C:\`,
		`D:`:                  `D:\`,
		`D:\`:                 `D:\`,
		`D:data`:              `D:\data`,
		`\\.\pipe\containerd`: `\\.\pipe\containerd`,
		// What the node would have to ask another machine for, and log in there.
		`\\server\share\x`:                       "error",
		`//server/share`:                         "error",
		`/\server\share`:                         "error",
		`\\server\pipe\x`:                        "error",
		`\\?\UNC\server\share`:                   "error",
		`\\.\unc\server\share`:                   "error",
		`\\.\GLOBALROOT\Device\Mup\server\share`: "error",
		`\\?\GLOBALROOT\Device\Mup\server\share`: "error",
		`\\.\Global\UNC\server\share`:            "error",
		`\\127.0.0.1\C$`:                         "error",
		`\\server@SSL\DavWWWRoot\x`:              "error",
		`\\?\pipe\x`:                             "error",
		`\\.\PHYSICALDRIVE0`:                     `\\.\PHYSICALDRIVE0`,
		`\\.\COM1`:                               `\\.\COM1`,
		`\\.\C:\a`:                               `\\.\C:\a`,
		`\\?\Volume{a1b2}\a`:                     `\\?\Volume{a1b2}\a`,
		`C:\a..b\c`:                              `C:\a..b\c`,
		`C:\..\x`:                                "error",
		`C:/a/../../x`:                           "error",
		`\\.\pipe\..\x`:                          "error",
		`/a/.. /x`:                               "error",
		`C:..\x`:                                 "error",
		`C:.. `:                                  "error",
		`/a/.../x`:                               "error",
		`C:\a:stream`:                            "error",
		`a:b:c`:                                  "error",
		`1:\x`:                                   "error",
		``:                                       "error",
		`C:\a|b`:                                 "error",
		"C:\\a\x00b":                             "error",
		`C:\var\log\pods\x y (1)`:                `C:\var\log\pods\x y (1)`,
		`C:`:                                     `C:\`,
		`c:`:                                     `c:\`,
		`C:\\a\\\b\`:                             `C:\a\b`,
		`C:\.\a\.\b`:                             `C:\a\b`,
		`./data`:                                 `C:\data`,
		`data/./x`:                               `C:\data\x`,
		`//`:                                     "error",
		`\\server`:                               "error",
		`\\`:                                     "error",
		`\\?\C:\a`:                               `\\?\C:\a`,
		`\\.\pipe\docker_engine`:                 `\\.\pipe\docker_engine`,
		`//./pipe/docker_engine`:                 `\\.\pipe\docker_engine`,
		`npipe:////./pipe/x`:                     "error",
		`C:\a\..`:                                "error",
		`..`:                                     "error",
		`../x`:                                   "error",
		`\..\x`:                                  "error",
		`C:\a?b`:                                 "error",
		`C:\a*b`:                                 "error",
		`C:\a<b`:                                 "error",
		`C:\a"b`:                                 "error",
		`C:C:\x`:                                 "error",
		`CC:\x`:                                  "error",
		`C;\x`:                                   `C:\C;\x`,
		`C:\Program Files (x86)\ä`:               `C:\Program Files (x86)\ä`,
		"C:\\a\tb":                               "error",
		"C:\\a\nb":                               "error",
		`C:\a.b.c`:                               `C:\a.b.c`,
		`C:\.hidden`:                             `C:\.hidden`,
		`C:\a \b`:                                `C:\a \b`,
		`C:\a.\b`:                                `C:\a.\b`,
		`C:\nul`:                                 `C:\nul`,
		`\\.\`:                                   "error",
	} {

		got, err := CleanHostPath(in, true)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", in, got, err, want)
		}
	}
}

func TestLinuxPaths(t *testing.T) {
	for in, want := range map[string]string{"/x": "/x", "x": "error", "": "error", "/a/../b": "error",
		"/a..b": "/a..b"} {
		got, err := CleanHostPath(in, false)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", in, got, err, want)
		}
	}
	if got, err := CleanContainerPath("rel", false); got != "/rel" || err != nil {
		t.Errorf("relative mountPath: %q %v", got, err)
	}
}

func TestSubPathText(t *testing.T) {
	for _, c := range []struct {
		in      string
		windows bool
		want    string
	}{
		{"a/b", false, "a/b"}, {"a//b/.", false, "a/b"}, {".", false, ""}, {"", false, ""},
		{"/a", false, "error"}, {"../a", false, "error"}, {"a/..", false, "error"}, {`a\b`, false, `a\b`},
		{"a..b", false, "a..b"},
		{`a\b`, true, "a/b"}, {`a\..\b`, true, "error"}, {`C:\x`, true, "error"}, {`\x`, true, "error"},
		{"a:s", true, "error"},
		{"nul", true, "error"}, {"x/COM1.txt", true, "error"}, {"lpt³", true, "error"}, {"com12", true, "com12"},
		{"x.", true, "error"},
	} {
		got, err := CleanSubPath(c.in, c.windows)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%q windows=%v: %q (%v), want %q", c.in, c.windows, got, err, c.want)
		}
	}
}

func FuzzPaths(f *testing.F) {
	for _, s := range []string{`C:\etc\foo`, "C:/a/../b", `\\.\pipe\x`, "a/b", "..", `. .\..`, "x:y"} {
		f.Add(s)
	}

	f.Fuzz(func(t *testing.T, in string) {
		for _, windows := range []bool{false, true} {
			for name, clean := range map[string]func(string, bool) (string, error){"host": CleanHostPath,
				"container": CleanContainerPath} {
				out, err := clean(in, windows)
				if err != nil {
					continue
				}
				if hasDotDot(out, windows) {
					t.Fatalf("%s %q -> %q has '..'", name, in, out)
				}
				if again, err := clean(out, windows); err != nil || again != out {
					t.Fatalf("%s %q -> %q -> %q %v", name, in, out, again, err)
				}
			}
			if sub, err := CleanSubPath(in, windows); err == nil &&
				(strings.HasPrefix(sub, "/") || sub == ".." || strings.HasPrefix(sub, "../") ||
					strings.Contains(sub, "/../")) {
				t.Fatalf("subPath %q -> %q", in, sub)
			}
		}
	})
}
