package layers

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/testkit/mischief"
)

// TestMischief measures and imports a folder while a program of the host changes what is in it at random.
func TestMischief(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of other users need root")
	}
	h := hostfs.Host{Dir: t.TempDir()}
	c := h.DriveC()
	check(t, os.MkdirAll(c, 0o755))
	check(t, os.Chmod(filepath.Dir(h.Dir), 0o711)) // the user passes through
	check(t, wine.Own(c))
	mischief.Run(t, mischief.Options{Dirs: []string{c, c}, Owner: wine.Owner, Names: []string{filesOf, "Hives"},
		Calls: map[string]func(string) string{
			"usedBelow": func(string) string {
				_, _ = usedBelow(c, time.Now().Add(time.Second))
				return ""
			},
			"import": func(string) string {
				files, layer := filepath.Join(h.Dir, "files"), filepath.Join(h.Dir, "layer")
				check(t, errors.Join(os.RemoveAll(files), os.RemoveAll(layer), os.Mkdir(files, 0o755),
					os.Mkdir(layer, 0o755)))
				root, err := hostfs.OpenRoot(layer)
				check(t, err)
				defer root.Close()
				_ = importInto(files, c, root)
				return ""
			},
		}})
}
