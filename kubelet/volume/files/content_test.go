package files

import (
	"strings"
	"testing"
)

func TestContentCheck(t *testing.T) {
	for _, c := range []struct {
		paths   string
		windows bool
		ok      bool
	}{
		{"a,b/c", false, true}, {"../a", false, false}, {"a/../b", false, false}, {"/a", false, false},
		{"..a", false, false},
		{"a//b", false, false}, {strings.Repeat("n", 256), false, false}, {strings.Repeat("n", 255), false, true},
		{"A,a", false, true}, {"A,a", true, false}, {"a:b", true, false}, {"a:b", false, true},
		{"nul.txt", true, false}, {"a\xff", false, false}, {"ä", false, true}, {`a\b`, true, false},
	} {
		files := Content{}
		for _, p := range strings.Split(c.paths, ",") {
			files[p] = File{}
		}
		if err := files.Check(c.windows); (err == nil) != c.ok {
			t.Errorf("%s windows=%v: %v", c.paths, c.windows, err)
		}
	}
}
