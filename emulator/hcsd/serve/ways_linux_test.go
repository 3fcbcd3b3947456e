package serve

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/testkit"
)

// TestWaysOut has a program that makes system calls of Linux itself try each way out of a container that it knows, as
// both users that every container has. For the host's own programs, and so for HostProcess pods, see cli/host
// TestHost.
func TestWaysOut(t *testing.T) {
	for _, build := range []int{17763, 26100} {
		t.Run(fmt.Sprint(build), func(t *testing.T) {
			h := startHostOf(t, build)
			h.write("layers/base/Files/note.txt", "of the image")
			h.write("shared/note.txt", "of the host")
			h.built("client", "client.exe")
			h.built("escape", "layers/base/Files/escape.exe")
			line := strings.Join([]string{`C:\escape.exe`, h.o.HostDir, h.o.Template, filepath.Dir(h.o.HostDir),
				h.o.runtime().Root()}, " ")
			w := wantedPrograms{Mounts: []wantedMount{{HostPath: `C:\shared`, ContainerPath: `C:\shared`}}}
			for _, user := range []string{"ContainerUser", "ContainerAdministrator"} {
				w.Programs = append(w.Programs, wantedProgram{Line: line, User: user})
			}
			for i, r := range h.ran(w) {
				if r.Code != 0 {
					t.Errorf("as %s: %+v", w.Programs[i].User, r)
				}
				testkit.NoWayOut(t, r.Out)
			}
		})
	}
}
