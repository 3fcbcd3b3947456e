package main

import (
	"path"
	"strings"
)

// archive is what users get in one file.
type archive struct {
	file string // name in the folder of the release; its ending is the format
	top  string // folder in the archive that has everything; "": there is none
	// parts are files and folders of the repository by their place in the archive.
	parts []part
}

// part is a file of an archive, or a folder with all that is in it.
type part struct {
	from, to string
	program  bool
	modes    bool   // each file is executable as on the disk
	cure     string // make target that builds it
}

// linuxArchive is for a machine that has neither Go nor this repository: `porthole up` there makes the local cluster.
// Its programs have the places that they have in bin, where porthole looks for them.
func linuxArchive(version string) archive {
	a := archive{file: "porthole-" + version + "-linux-amd64.tar.gz", top: "porthole-" + version + "-linux-amd64"}
	a.built("build", "porthole", "porthole-routes", "porthole-host", "porthole-web", "ovn_cni",
		"windows/porthole.exe", "windows/kubelet.exe", "windows/kube-proxy.exe", "windows/win-bridge.exe",
		"windows/win-overlay.exe", "windows/wincni.exe",
		"windows/ovn_cni.exe", "windows/dll",
		"bundle/kube", "bundle/containerd", "bundle/containerd-shim-runc-v2", "bundle/coredns", "bundle/registry",
		"bundle/cni", "bundle/images")
	a.built("windows-runtime", "bundle/windows/containerd.exe", "bundle/windows/containerd-shim-runhcs-v1.exe")
	a.parts = append(a.parts, part{from: "bin/root", to: "root", modes: true, cure: "root"},
		part{from: "LICENSE", to: "LICENSE"}, part{from: "tools/release/linux.md", to: "README.md"})
	return a
}

// built adds parts that have the same place in bin as in the archive.
func (a *archive) built(target string, names ...string) {
	for _, name := range names {
		a.parts = append(a.parts, part{from: path.Join("bin", name), to: name, program: true, cure: target})
	}
}

// windowsArchive is for a Windows node. kubelet.exe is porthole.exe under another name and is not in it a second time.
func windowsArchive(version string) archive {
	a := archive{file: "porthole-" + version + "-windows-amd64.zip"}
	for _, p := range []struct{ to, target, dir, names string }{
		{"", "programs", "bin/windows", "porthole kube-proxy"},
		{"cni", "programs", "bin/windows", "win-bridge win-overlay wincni ovn_cni"},
		{"containerd", "windows-runtime", "bin/bundle/windows", "containerd containerd-shim-runhcs-v1"},
	} {
		for _, name := range strings.Fields(p.names) {
			a.parts = append(a.parts,
				part{from: path.Join(p.dir, name+".exe"), to: path.Join(p.to, name+".exe"), program: true,
					cure: p.target})
		}
	}
	a.parts = append(a.parts, part{from: "LICENSE", to: "LICENSE"},
		part{from: "tools/release/windows.md", to: "README.md"})
	return a
}
