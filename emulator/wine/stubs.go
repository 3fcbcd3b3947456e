package wine

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const stubsVersion = "stubs 7" // changes with the list, so that templates are made again

// stubs are programs of Wine 8.0 and 10.0 that do nothing and end with 0. Whoever runs one would be told that it is
// done: a probe that asks PowerShell, a script that looks for a program with where. Without them there is no such
// program, which everybody sees. Those that we have a program of our own for are not here.
var stubs = []string{"arp.exe", "aspnet_regiis.exe", "cacls.exe", "certutil.exe", "dism.exe", "fc.exe", "icacls.exe",
	"mshta.exe", "msinfo32.exe", "ngen.exe",
	"pnputil.exe", "powershell.exe", "regasm.exe", "regini.exe", "regsvcs.exe", "sdbinst.exe", "servicemodelreg.exe",
	"setx.exe", "subst.exe", "systeminfo.exe",
	"tasklist.exe", "wevtutil.exe", "wmplayer.exe"}

// ours are programs and libraries that we have in the place of Wine's, also in containers. bcryptprimitives and
// sort.exe are Wine's since 9.0 and 10.0: 8.0 has neither.
var ours = []string{"bcryptprimitives", "net.exe", "netapi32", "shutdown.exe", "sort.exe", "where.exe", "whoami.exe"}

// withoutStubs removes Wine's stubs from a prefix.
func withoutStubs(p Prefix) error {
	return filepath.WalkDir(p.DriveC(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains(stubs, strings.ToLower(d.Name())) {
			return err
		}
		return os.Remove(path)
	})
}

// makeDriverStore gives a prefix the folder in which Windows has its drivers, without any. Wine 10.0 has one, spelled
// in another way, with drivers that no Windows has.
func makeDriverStore(p Prefix) error {
	const folder = "DriverStore"
	system := filepath.Join(p.DriveC(), "windows", "system32")
	if name, found := findName(system, folder); found {
		if err := os.RemoveAll(filepath.Join(system, name)); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(system, folder, "FileRepository"), 0o755)
}

// stubRegistry has Wine take our programs, and forbids it to take the stubs from its own folder, where it looks for a
// program of system32 that is missing. Programs of these names that an image or somebody else brings run.
func stubRegistry() string {
	var s strings.Builder
	s.WriteString("\n[Software\\\\Wine\\\\DllOverrides]\n")
	for _, name := range ours {
		s.WriteString(`"` + name + `"="native,builtin"` + "\n")
	}
	for _, name := range stubs {
		s.WriteString(`"` + name + `"="native"` + "\n")
	}
	return s.String()
}
