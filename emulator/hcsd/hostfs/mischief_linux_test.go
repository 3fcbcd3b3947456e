package hostfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/testkit/mischief"
)

// TestMischief opens files of a host's C: while a program of the host changes them at random.
func TestMischief(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of other users need root")
	}
	h := Host{t.TempDir()}
	check(t, os.MkdirAll(h.DriveC(), 0o755))
	check(t, os.Chmod(filepath.Dir(h.Dir), 0o711)) // the user passes through
	check(t, wine.Own(h.DriveC()))
	content := func(p Place, err error) string {
		if err != nil {
			return ""
		}
		defer p.Close()
		return mischief.Content(p.File, p.Path())
	}
	mischief.Run(t, mischief.Options{Dirs: []string{h.DriveC(), h.DriveC()}, Owner: wine.Owner,
		Names: []string{"Files"},
		Calls: map[string]func(name string) string{
			"Open": func(name string) string { return content(h.Open(`C:\` + strings.ReplaceAll(name, "/", `\`))) },
			"Pin":  func(name string) string { return content(h.Pin(filepath.Join(h.DriveC(), name))) },
			"ReadSmall": func(name string) string {
				root, err := h.OpenC()
				check(t, err)
				defer root.Close()
				text, _ := ReadSmall(root, name)
				return text
			},
		}})
}
