package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/packaging/systemd"
)

// A file and a script of the packages.
var (
	//go:embed files/porthole-routes.default
	routesDefault string
	//go:embed files/changed.sh
	unitsChanged string
)

// kubernetes is the release whose kubelet the package stands for; a test compares it with the kubelet's own.
const kubernetes = "1.36.3"

// software is a package of a Linux distribution, before it has a format.
type software struct {
	name, version         string // the version in the form of packages: 0.1.0, or 0.1.0~rc.1, which is older
	summary, description  string
	maintainer, home      string
	files                 []installed // sorted by path; folders in front of what is in them
	provides, conflicts   []string    // names; one with a version has it after "="
	recommends            []string    // of Debian's packages
	installed, deinstall  string      // shell scripts
	defaults              string      // folder for variables of units
	licenseName, category string
	level                 int // of compression
}

// installed is a file, folder or symbolic link of a package.
type installed struct {
	path   string // with a slash in front
	data   []byte
	link   string // target of a symbolic link
	folder bool
	exec   bool
	config bool // a file that users change: an upgrade does not replace it
}

// mode is that of an installed file; the mode of a link has no meaning.
func (i installed) mode() int64 {
	switch {
	case i.link != "":
		return 0o777
	case i.folder || i.exec:
		return 0o755
	}
	return 0o644
}

// nodePackage is the node's part: a kubelet package, with the agent of the pod network beside it. defaults is where
// the distribution has the variables of units: /etc/default, /etc/sysconfig.
func (r *release) nodePackage(defaults string) (software, error) {
	s := software{
		name: "porthole", version: strings.Replace(strings.TrimPrefix(r.version, "v"), "-", "~", 1),
		summary: "kubelet and pod network of Porthole, for a Linux node of Kubernetes",
		description: "A kubelet for Kubernetes " + kubernetes +
			" that takes upstream's flags and files, and the agent that keeps routes between nodes, " +
			"those with Windows among them. `kubeadm join` works with it as with upstream's kubelet.",
		maintainer: "Porthole <maintainers@porthole.dev>", home: "https://porthole.dev", licenseName: "Apache-2.0",
		category: "admin",
		provides: []string{"kubelet=" + kubernetes}, conflicts: []string{"kubelet"},
		recommends: []string{"containerd | containerd.io | cri-o"},
		installed:  unitsChanged, deinstall: unitsChanged, defaults: defaults, level: r.level,
	}

	home, units := "/usr/lib/porthole/"+r.version, "/usr/lib/systemd/system/"
	var programs []entry
	for _, name := range []string{"porthole", "porthole-routes", "ovn_cni"} {
		e := entry{name: name, path: filepath.Join(r.root, "bin", name), exec: true}
		data, err := e.read()
		if errors.Is(err, os.ErrNotExist) {
			return s, fmt.Errorf("bin/%s is missing: `make build` builds it", name)
		}
		if err != nil {
			return s, err
		}
		programs = append(programs, e)
		s.files = append(s.files, installed{path: path.Join(home, name), data: data, exec: true})
	}
	more, err := r.described(programs)
	if err != nil {
		return s, err
	}
	for _, e := range more {
		data, err := e.read()
		if err != nil {
			return s, err
		}
		s.files = append(s.files, installed{path: path.Join(home, e.name), data: data})
	}

	// Both commands are one program, which goes by the name that it is called by.
	for _, command := range []string{"porthole", "kubelet"} {
		s.files = append(s.files,
			installed{path: "/usr/bin/" + command, link: "../lib/porthole/" + r.version + "/porthole"})
	}
	for name, text := range systemd.Units("", defaults) {
		s.files = append(s.files, installed{path: units + name, data: text})
	}
	s.files = append(s.files, installed{path: defaults + "/porthole-routes", data: []byte(routesDefault), config: true})
	s.complete("/usr/lib/porthole", units+"kubelet.service.d")
	return s, nil
}

// complete sorts the files and adds the folders that belong to the package: those at or below owned.
func (s *software) complete(owned ...string) {
	folders := map[string]bool{}
	for _, f := range s.files {
		for dir := path.Dir(f.path); dir != "/"; dir = path.Dir(dir) {
			if slices.ContainsFunc(owned, func(o string) bool { return dir == o || strings.HasPrefix(dir, o+"/") }) {
				folders[dir] = true
			}
		}
	}
	for dir := range folders {
		s.files = append(s.files, installed{path: dir, folder: true})
	}
	slices.SortFunc(s.files, func(a, b installed) int { return cmp.Compare(a.path, b.path) })
}

// size returns the bytes of all files.
func (s software) size() (sum int64) {
	for _, f := range s.files {
		sum += int64(len(f.data))
	}
	return sum
}

// packages writes the packages of Linux distributions and returns their paths.
func (r *release) packages() (made []string, err error) {
	for _, p := range []struct {
		defaults string
		file     func(software) string
		write    func(*bytes.Buffer, software, int64) error
	}{
		{"/etc/default", func(s software) string { return s.name + "_" + s.version + "_amd64.deb" }, writeDeb},
		{"/etc/sysconfig", func(s software) string { return s.name + "-" + s.version + "-1.x86_64.rpm" }, writeRPM},
	} {
		s, err := r.nodePackage(p.defaults)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		target := filepath.Join(r.out, p.file(s))
		if err := p.write(&out, s, r.at.Unix()); err != nil {
			return nil, fmt.Errorf("%s: %w", target, err)
		}
		if err := os.WriteFile(target, out.Bytes(), 0o644); err != nil {
			return nil, err
		}
		made = append(made, target)
	}
	return made, nil
}
