// Package script runs plan tests that are written as text files, so that a case can be added without knowing Go.
//
// A script is a txtar archive (https://pkg.go.dev/golang.org/x/tools/txtar). The text above its first section says
// what the script shows. Its sections are played from top to bottom: most of them are given to a Player, which
// remembers them; those whose name begins with "want" are compared with what the Player has to show at that point.
//
//	A deleted endpoint leaves the load balancer.
//	-- services --
//	…YAML…
//	-- want plan --
//	create lb 10.96.0.10:53/UDP …
//	-- services --
//	…YAML…
//	-- want plan --
//	…
//
// `go test PACKAGE -update` rewrites the "want" sections; read the diff before it is committed.
package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the sections of scripts that say what is wanted")

// Player plays one script. Section names are the words between the dashes.
type Player interface {
	// Give takes in a section: an object, an observation, a setting.
	Give(section, text string) error
	// Show returns the text that a section "want …" is compared with. What went wrong, where a script may want that,
	// is text too; an error ends the script.
	Show(section string) (string, error)
}

// Run plays every file that the pattern matches, each with a new Player and as a subtest named after the file. It
// fails if none matches.
func Run(t *testing.T, pattern string, player func(t *testing.T) Player) {
	t.Helper()

	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no script matches %s: %v", pattern, err)
	}

	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		t.Run(name, func(t *testing.T) { play(t, file, player(t)) })
	}
}

// play plays one file. Sections are given and asked for in the order of the file, so that a script can go on after a
// wanted plan. With -update it writes what it got into the file.
func play(t *testing.T, file string, p Player) {
	t.Helper()

	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}

	wanted := 0
	for i := range archive.Files {
		section := &archive.Files[i]
		if !strings.HasPrefix(section.Name, "want") {
			if err := p.Give(section.Name, string(section.Data)); err != nil {
				t.Fatalf("section %d, %q: %v", i+1, section.Name, err)
			}
			continue
		}

		wanted++
		got, err := p.Show(section.Name)
		if err != nil {
			t.Fatalf("section %d, %q: %v", i+1, section.Name, err)
		}
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if diff := cmp.Diff(string(section.Data), got); diff != "" && !*update {
			t.Errorf("section %d, %q (-want +got):\n%s", i+1, section.Name, diff)
		}
		section.Data = []byte(got)
	}

	if wanted == 0 {
		t.Fatalf("%s wants nothing: it has no section whose name begins with \"want\"", file)
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
