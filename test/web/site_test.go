package web

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/browser"
)

// TestSite: the site of the documents, opened as files, can be read at 1400 and 400 px, light and dark: nothing is
// wider than the window, axe has no serious finding, and the search finds an event and leads to it.
func TestSite(t *testing.T) {
	b := browser.New(t)
	out := filepath.Join(t.TempDir(), "docs")
	build := exec.Command("go", "run", "./tools/site", "-out", out)
	build.Dir = filepath.Join(browser.Page(t), "..", "..")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the site: %v\n%s", err, said)
	}

	for _, name := range []string{
		"index", "use/join", "use/troubleshoot", "reference/metrics", "reference/commands/up",
		"architecture", "evidence/bench",
	} {
		for _, a := range []browser.Args{{Width: 1400, Height: 900}, {Width: 400, Height: 900, Dark: true}} {
			t.Run(fmt.Sprintf("%s,%d", name, a.Width), func(t *testing.T) {
				a.Tab, a.URL = "a", "file://"+filepath.Join(out, filepath.FromSlash(name)+".html")
				b.Open(a)
				if wider := b.Text("a", "document.documentElement.scrollWidth - innerWidth"); wider != "0" {
					t.Errorf("%s px are outside of the window", wider)
				}
				accessible(t, b, a.URL)
			})
		}
	}

	b.Do("evaluate", browser.Args{Tab: "a", Text: `{ const f = document.getElementById("search"); f.value = "FrontendTaken"; f.dispatchEvent(new Event("input")); }`}, nil)
	b.Wait("a", `document.querySelector("#results a") !== null`, 10*time.Second)
	if first := b.Text("a", `document.querySelector("#results a").getAttribute("href")`); !strings.HasSuffix(first, "use/troubleshoot.html#events") {
		t.Errorf("the first that is found is %s", first)
	}
}
