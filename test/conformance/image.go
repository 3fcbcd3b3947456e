package main

import (
	"fmt"
	"path/filepath"
	"slices"
)

// image is one that the tests name. Its layers are shared with other images where they are equal.
type image struct {
	repository string // below registry.k8s.io, which the nodes' mirror serves
	tags       []string
	linux      *variant
	windows    *variant
}

// variant is an image for one system.
type variant struct {
	layers     []string // names of layers, lowest first
	entrypoint []string
	args       []string
	env        []string
	user       string
	dir        string
}

// Paths of a Linux container: what the tests' own images have.
const linuxPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func linux(layers ...string) *variant {
	return &variant{layers: append([]string{"base"}, layers...), env: []string{linuxPath}, dir: "/"}
}

func windows(layers ...string) *variant {
	return &variant{
		layers: append([]string{"windows-base"}, layers...), dir: `C:\`, user: "ContainerAdministrator",
		env: []string{`PATH=C:\bin;C:\;C:\Windows\system32;C:\Windows`},
	}
}

// starting is v with a program to start and its arguments.
func (v *variant) starting(entrypoint []string, args ...string) *variant {
	v.entrypoint, v.args = entrypoint, args
	return v
}

// as is v for another user.
func (v *variant) as(user string) *variant {
	v.user = user
	return v
}

// images is what the suite of Kubernetes 1.36.3 names in its conformance tests (test/utils/image/manifest.go there). Tags
// of one row differ in their configuration, because tests tell them apart.
func images() []image {
	agnhost := func(extra ...string) *variant {
		return linux(append([]string{"tools", "agnhost"}, extra...)...).starting([]string{"/agnhost"}, "pause")
	}
	agnhostWindows := func(extra ...string) *variant {
		v := windows(append([]string{"windows-agnhost"}, extra...)...).starting([]string{"/agnhost"}, "pause")
		v.env = append(v.env, "COPYCMD=/Y") // a test copies agnhost to agnhost.exe, which upstream's image lacks and ours has
		return v
	}
	shell := windows().starting([]string{"cmd.exe", "/s", "/c"})

	return []image{
		{repository: "e2e-test-images/agnhost", tags: []string{"2.63.0", "2.55"}, linux: agnhost(), windows: agnhostWindows()},
		{repository: "e2e-test-images/busybox", tags: []string{"1.37.0-1"}, linux: linux().starting(nil, "sh"), windows: shell},
		{repository: "e2e-test-images/nginx", tags: []string{"1.15-4", "1.27-0"},
			linux:   agnhost().starting([]string{"/agnhost"}, "test-webserver"),
			windows: agnhostWindows().starting([]string{"/agnhost"}, "test-webserver")},
		{repository: "e2e-test-images/nautilus", tags: []string{"1.8"},
			linux: agnhost("nautilus").starting([]string{"/agnhost"}, "test-webserver"), windows: agnhostWindows("windows-nautilus").starting([]string{"/agnhost"}, "test-webserver")},
		{repository: "e2e-test-images/kitten", tags: []string{"1.8"},
			linux: agnhost("kitten").starting([]string{"/agnhost"}, "test-webserver"), windows: agnhostWindows("windows-kitten").starting([]string{"/agnhost"}, "test-webserver")},
		{repository: "e2e-test-images/glibc-dns-testing", tags: []string{"2.0.0"}, linux: linux("tools").starting(nil, "sh"), windows: shell},
		{repository: "e2e-test-images/ipc-utils", tags: []string{"1.4"}, linux: linux("tools").starting(nil, "sh")},
		{repository: "e2e-test-images/nonroot", tags: []string{"1.5"}, linux: linux().starting(nil, "sh").as("1234"), windows: windows().starting([]string{"cmd.exe", "/s", "/c"}).as("ContainerUser")},
		{repository: "e2e-test-images/nonewprivs", tags: []string{"1.4"}, linux: linux("nonewprivs").starting(nil, "nnp")},
		{repository: "e2e-test-images/sample-apiserver", tags: []string{"1.29.2"}, linux: linux("sample-apiserver").starting([]string{"/sample-apiserver"})},
		{repository: "etcd", tags: []string{"3.6.8-0"}, linux: linux("etcd").starting(nil, "etcd")},
		{repository: "pause", tags: []string{"3.10.2"},
			linux:   &variant{layers: []string{"pause"}, entrypoint: []string{"/pause"}, env: []string{linuxPath}, dir: "/", user: "65535:65535"},
			windows: windows("windows-pause").starting([]string{`C:\pause.exe`})},
	}
}

// parts of the layers, by name. Programs come from dir, which `make conformance-build` fills, from bundle, the programs of a
// local cluster, and from the machine.
func parts(dir, bundle string) map[string]func(*layer) error {
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	files := func(pairs ...string) func(*layer) error {
		return func(l *layer) error {
			for pair := range slices.Chunk(pairs, 2) {
				if err := l.file(pair[0], pair[1], 0o755); err != nil {
					return err
				}
			}
			return nil
		}
	}

	return map[string]func(*layer) error{
		"base":  func(l *layer) error { return addBase(l, at("sh")) },
		"tools": addTools,
		"agnhost": func(l *layer) error {
			l.link("agnhost", "agnhost-2")
			l.dir("uploads", 0o777)
			return files("agnhost", at("agnhost"), "localhost.crt", at("data", "localhost.crt"), "localhost.key", at("data", "localhost.key"))(l)
		},
		"nautilus": files("nautilus.jpg", at("data", "nautilus.jpg"), "data.json", at("data", "nautilus.json")),
		"kitten":   files("kitten.jpg", at("data", "kitten.jpg"), "data.json", at("data", "kitten.json")),
		"nonewprivs": func(l *layer) error {
			return l.file("usr/local/bin/nnp", at("nonewprivs"), 0o6755)
		},
		"sample-apiserver": files("sample-apiserver", at("sample-apiserver")),
		"etcd":             files("usr/local/bin/etcd", at("etcd")),
		"pause":            files("pause", filepath.Join(bundle, "images", "linux", "pause")),
		"windows-base": func(l *layer) error {
			l.dir("Files", 0o755)
			l.dir("Hives", 0o755)
			l.dir("Files/tmp", 0o777)
			l.dir("Files/bin", 0o755)
			for _, name := range windowsCommands {
				l.same("Files/bin/busybox.exe", "Files/bin/"+name+".exe")
			}
			return l.file("Files/bin/busybox.exe", at("windows", "sh.exe"), 0o755)
		},
		"windows-agnhost": func(l *layer) error {
			l.dir("Files/uploads", 0o777)
			l.same("Files/agnhost.exe", "Files/agnhost") // the name in upstream's image
			return files("Files/agnhost.exe", at("windows", "agnhost.exe"), "Files/agnhost-2.exe", at("windows", "agnhost.exe"),
				"Files/localhost.crt", at("data", "localhost.crt"), "Files/localhost.key", at("data", "localhost.key"))(l)
		},
		"windows-nautilus": files("Files/nautilus.jpg", at("data", "nautilus.jpg"), "Files/data.json", at("data", "nautilus.json")),
		"windows-kitten":   files("Files/kitten.jpg", at("data", "kitten.jpg"), "Files/data.json", at("data", "kitten.json")),
		"windows-pause":    files("Files/pause.exe", filepath.Join(bundle, "images", "windows", "pause.exe")),
	}
}

// Files that every Linux image has. The second user and group belong to upstream's agnhost image and are named by its tests.
var etc = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n",
	"etc/group": "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\n" +
		"group-defined-in-image:x:50000:user-defined-in-image\n",
	// A test of image volumes looks for the name of the system that upstream's image is made of.
	"etc/os-release":    "NAME=\"Porthole's stand-in for an image made of Alpine Linux\"\nID=porthole\n",
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

// busybox of Debian's package busybox-static.
const busybox = "/bin/busybox"

// addBase makes a small userland of Debian's static busybox, with our choice of shells (shell/).
func addBase(l *layer, shell string) error {
	for _, d := range []string{"bin", "etc", "home", "root", "usr", "usr/bin", "usr/local", "usr/local/bin", "usr/sbin", "var", "sbin", "lib", "lib64", "mnt"} {
		l.dir(d, 0o755)
	}
	l.dir("tmp", 0o1777)
	for name, content := range etc {
		l.text(name, content)
	}
	if err := l.file("bin/busybox", busybox, 0o755); err != nil {
		return fmt.Errorf("%w (Debian's package busybox-static has it)", err)
	}

	applets, err := appletsOf(busybox)
	if err != nil {
		return err
	}

	for _, name := range applets {
		if name != "busybox" && name != "sh" {
			l.link("/bin/busybox", "bin/"+name)
		}
	}

	if err := l.file("bin/sh", shell, 0o755); err != nil {
		return err
	}
	l.link("/usr/bin/bash", "bin/bash")
	return l.program("usr/bin/bash", "/bin/bash")
}

// windowsCommands are the names that the shell for Windows (shell/) knows.
var windowsCommands = []string{
	"awk", "cat", "chmod", "chown", "cp", "curl", "date", "dig", "echo", "env", "expr", "false", "find", "grep", "head", "hexdump", "hostname", "id", "ls", "mkdir",
	"mv", "nc", "nslookup", "powershell", "printf", "pwd", "rm", "seq", "sh", "sleep", "sync", "tail", "test", "touch", "true", "uname", "wc", "wget", "xargs",
}

// tools that the tests call by name and that busybox lacks or does another way, with Debian's package of each.
var tools = map[string]string{
	"/usr/bin/curl": "curl", "/usr/bin/dig": "bind9-dnsutils", "/bin/nc.openbsd": "netcat-openbsd",
	"/bin/ip": "iproute2", "/bin/ss": "iproute2", "/usr/bin/getent": "libc-bin",
}

// addTools copies the programs of this machine with the libraries that they load.
func addTools(l *layer) error {
	for program, from := range tools {
		name := filepath.Base(program)
		if name == "nc.openbsd" {
			name = "nc"
		}
		if err := l.program("usr/bin/"+name, program); err != nil {
			return fmt.Errorf("%w (Debian's package %s has it)", err, from)
		}
	}
	l.link("/usr/bin/bash", "bin/sh") // the shell of busybox would take its own nc
	return nil
}
