package container

import (
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/testkit/mischief"
)

// TestMischief talks with a launcher by files that the programs of the container change at random.
func TestMischief(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of other users need root")
	}
	dir := t.TempDir()
	b := New(Options{Host: hostfs.Host{Dir: dir}}).bundle("c")
	for _, d := range []string{b.guest(), b.run()} {
		check(t, os.MkdirAll(d, 0o755))
	}
	check(t, os.Chmod(filepath.Dir(dir), 0o711)) // the container's user passes through
	check(t, wine.Own(b.guest()))
	names := []string{fileOf(1, "line.new")}
	for _, what := range told {
		names = append(names, fileOf(1, what))
	}
	mischief.Run(t, mischief.Options{Dirs: []string{b.guest()}, Owner: wine.Owner, Names: names,
		Calls: map[string]func(string) string{
			"launcher": func(string) string {
				f, err := b.openRun()
				check(t, err)
				defer f.close()
				_ = f.write(1, "line", []byte("told"))
				_, _ = f.exitCode(1)
				said := f.read(1, "started") + f.read(1, "exit")
				b.removeProgram(1)
				return said
			},
		}})
}
