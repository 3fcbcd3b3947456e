package serve

import (
	"strings"
	"testing"
)

// testUsers: ContainerAdministrator is a member of Administrators and ContainerUser is not, as `whoami /user /groups`
// shows in a container of Windows (moby/buildkit#5791). The same holds for a program that his starts, also with a
// restricted token.
func testUsers(t *testing.T, h *host) {
	const (
		user  = "S-1-5-93-2-2 false false false 1 S-1-16-8192\n<nil>"
		admin = "S-1-5-93-2-1 true true true"
	)
	out := h.ran(wantedPrograms{Programs: []wantedProgram{
		{Line: `C:\app.exe user`}, {Line: `C:\app.exe user`, User: "ContainerUser"},
		{Line: `cmd /c C:\app.exe user`, User: "ContainerUser"},
		{Line: `C:\app.exe user`, User: `User Manager\ContainerAdministrator`},
		{Line: `C:\app.exe restricted`, User: "ContainerUser"},
	}})
	for i, want := range []string{admin, user, user, admin, user} {
		if got := strings.TrimSpace(out[i].Out); !strings.HasPrefix(got, want) {
			t.Errorf("program %d: %+v, want %s", i, out[i], want)
		}
	}
}

// testMounts: a folder that is mounted looks like any other, "Bind Links are transparent to applications" (Microsoft,
// "Overview of the Bindlink API"); a link is one.
func testMounts(t *testing.T, h *host) {
	h.write("shared-folder/below/note.txt", "text")
	out := h.ran(wantedPrograms{
		Mounts: []wantedMount{{HostPath: `C:\shared-folder`, ContainerPath: `C:\data`},
			{HostPath: `C:\shared-folder`, ContainerPath: `D:\deep\data`}},
		Programs: []wantedProgram{
			{Line: `C:\app.exe file C:\data`}, {Line: `C:\app.exe file D:\deep\data`},
			{Line: `C:\app.exe file C:\data\below`},
			{Line: `C:\app.exe link C:\data C:\to-data`}, {Line: `C:\app.exe file C:\to-data`},
		},
	})
	for i, r := range out[:3] {
		if want := "0x10 0x10 0x10 0x10 0x10 0x0 false\n<nil>"; strings.TrimSpace(r.Out) != want {
			t.Errorf("program %d: %+v, want %q", i, r, want)
		}
	}
	if want := "0x410 0x410 0x410 0x410 0x410 0xa000000c true\n<nil>"; strings.TrimSpace(out[4].Out) != want {
		t.Errorf("a link: %+v, want %q", out[4], want)
	}
}
