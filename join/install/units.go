package install

import (
	"embed"
	"io/fs"
	"path/filepath"
	"strings"
)

//go:embed units
var unitFiles embed.FS

// Units returns the systemd units of a Linux node by their path below a folder of units: what the packages contain, and what `porthole
// join` writes where no package did. porthole is the path of the program; the units of a package have /usr/bin/porthole and /usr/bin/kubelet.
func Units(porthole string) map[string][]byte {
	out := map[string][]byte{}
	entries, err := fs.ReadDir(unitFiles, "units")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range entries {
		text, err := unitFiles.ReadFile("units/" + e.Name())
		if err != nil {
			panic(err)
		}
		name := e.Name()
		if name == "20-porthole.conf" {
			name = filepath.Join("kubelet.service.d", name)
		}
		replaced := strings.NewReplacer("/usr/bin/porthole", porthole, "=/usr/bin/kubelet", "="+porthole+" kubelet").Replace(string(text))
		out[name] = []byte(replaced)
	}
	return out
}
