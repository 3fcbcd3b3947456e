package main

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/test/images"
)

// Paths of a Linux container: what the tests' own images have.
const linuxPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// linux and windows are variants of an image: the layers of the base and others over them, with the
// environment that containers start with.
func linux(layers ...string) *images.Variant {
	return &images.Variant{Layers: append([]string{"base"}, layers...), Env: []string{linuxPath}, Dir: "/"}
}

func windows(layers ...string) *images.Variant {
	return &images.Variant{
		Layers: append([]string{"windows-base"}, layers...), Dir: `C:\`, User: "ContainerAdministrator",
		Env: []string{`PATH=C:\bin;C:\;C:\Windows\system32;C:\Windows`},
	}
}

// suiteImages is what the suite of Kubernetes 1.36.3 names in its conformance tests (test/utils/image/manifest.go
// there). Tags of one row differ in their configuration, because tests tell them apart.
func suiteImages() []images.Image {
	// agnhost starts a pause process unless the test gives a command.
	agnhost := func(extra ...string) *images.Variant {
		return linux(append([]string{"tools", "agnhost"}, extra...)...).Starting([]string{"/agnhost"}, "pause")
	}
	agnhostWindows := func(extra ...string) *images.Variant {
		v := windows(append([]string{"windows-agnhost"}, extra...)...).Starting([]string{"/agnhost"}, "pause")
		// a test copies agnhost to agnhost.exe, which upstream's image lacks and ours has
		v.Env = append(v.Env, "COPYCMD=/Y")
		return v
	}
	shell := windows().Starting([]string{"cmd.exe", "/s", "/c"})

	return []images.Image{
		{Repository: "e2e-test-images/agnhost", Tags: []string{"2.63.0", "2.55"},
			Linux: agnhost("coredns", "private-registry"), Windows: agnhostWindows()},
		{Repository: "e2e-test-images/busybox", Tags: []string{"1.37.0-1"}, Linux: linux().Starting(nil, "sh"),
			Windows: shell},
		{Repository: "e2e-test-images/nginx", Tags: []string{"1.15-4", "1.27-0"},
			Linux:   agnhost().Starting([]string{"/agnhost"}, "test-webserver"),
			Windows: agnhostWindows().Starting([]string{"/agnhost"}, "test-webserver")},
		{Repository: "e2e-test-images/nautilus", Tags: []string{"1.8"},
			Linux:   agnhost("nautilus").Starting([]string{"/agnhost"}, "test-webserver"),
			Windows: agnhostWindows("windows-nautilus").Starting([]string{"/agnhost"}, "test-webserver")},
		{Repository: "e2e-test-images/kitten", Tags: []string{"1.8"},
			Linux:   agnhost("kitten").Starting([]string{"/agnhost"}, "test-webserver"),
			Windows: agnhostWindows("windows-kitten").Starting([]string{"/agnhost"}, "test-webserver")},
		{Repository: "e2e-test-images/glibc-dns-testing", Tags: []string{"2.0.0"},
			Linux: linux("tools").Starting(nil, "sh"), Windows: shell},
		{Repository: "e2e-test-images/ipc-utils", Tags: []string{"1.4"}, Linux: linux("tools").Starting(nil, "sh")},
		{Repository: "e2e-test-images/nonroot", Tags: []string{"1.5"}, Linux: linux().Starting(nil, "sh").As("1234"),
			Windows: windows().Starting([]string{"cmd.exe", "/s", "/c"}).As("ContainerUser")},
		{Repository: "e2e-test-images/nonewprivs", Tags: []string{"1.4"},
			Linux: linux("nonewprivs").Starting(nil, "nnp")},
		{Repository: "e2e-test-images/resource-consumer", Tags: []string{"1.14"},
			Linux:   linux("consumer").Starting([]string{"/consumer"}),
			Windows: windows("windows-consumer").Starting([]string{`C:\consumer.exe`})},
		{Repository: "e2e-test-images/regression-issue-74839", Tags: []string{"1.4"},
			Linux: linux("boom").Starting([]string{"/regression-issue-74839"})},
		{Repository: "e2e-test-images/sample-device-plugin", Tags: []string{"1.7"},
			Linux: linux("device-plugin").Starting([]string{"/sampledeviceplugin", "-alsologtostderr"})},
		{Repository: "build-image/distroless-iptables", Tags: []string{"v0.9.6"},
			Linux: linux("conntrack").Starting(nil, "sh")},
		{Repository: "e2e-test-images/sample-apiserver", Tags: []string{"1.29.2"},
			Linux: linux("sample-apiserver").Starting([]string{"/sample-apiserver"})},
		{Repository: "sig-storage/hostpathplugin", Tags: []string{"v1.17.1"},
			Linux: linux("pairs").Starting([]string{"/hostpathplugin"})},
		{Repository: "etcd", Tags: []string{"3.6.8-0"}, Linux: linux("etcd").Starting(nil, "etcd")},
		{Repository: "pause", Tags: []string{"3.10.2"},
			Linux: pauseVariant(),
			// nanoserver's user
			Windows: windows("windows-pause").Starting([]string{`C:\pause.exe`}).As("ContainerUser")},
	}
}

// parts of the layers, by name. Programs come from dir, which `make conformance-build` fills, from bundle, the
// programs of a local cluster, and from the machine.
func parts(dir, bundle string) map[string]func(*images.Layer) error {
	all := linuxParts(dir, bundle)
	maps.Copy(all, windowsParts(dir, bundle))
	return all
}

// files adds programs and data, given as pairs of a path in the image and one on this machine.
// The mode is that of a program; data has it too.
func files(pairs ...string) func(*images.Layer) error {
	return func(l *images.Layer) error {
		for pair := range slices.Chunk(pairs, 2) {
			if err := l.File(pair[0], pair[1], 0o755); err != nil {
				return err
			}
		}
		return nil
	}
}

// windowsFiles is files for a Windows layer.
func windowsFiles(pairs ...string) func(*images.Layer) error {
	return func(l *images.Layer) error {
		l.Dir("Files", 0o755) // hcsshim does not make the folder of a file for itself
		return files(pairs...)(l)
	}
}

// linuxParts returns each layer as a function that fills it; what is not used is never read.
func linuxParts(dir, bundle string) map[string]func(*images.Layer) error {
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	pause := files("pause", filepath.Join(bundle, "images", "linux", "pause"))

	return map[string]func(*images.Layer) error{
		"base":  func(l *images.Layer) error { return addBase(l, at("sh")) },
		"tools": addTools,
		"agnhost": func(l *images.Layer) error {
			l.Link("agnhost", "agnhost-2")
			l.Dir("uploads", 0o777)
			for name, content := range agnhostEtc {
				l.Text(name, content)
			}
			return files("agnhost", at("agnhost"), "localhost.crt", at("data", "localhost.crt"), "localhost.key",
				at("data", "localhost.key"))(l)
		},
		"private-registry": func(l *images.Layer) error { return addPrivateRegistry(l, pause) },
		"nautilus":         files("nautilus.jpg", at("data", "nautilus.jpg"), "data.json", at("data", "nautilus.json")),
		"kitten":           files("kitten.jpg", at("data", "kitten.jpg"), "data.json", at("data", "kitten.json")),
		"nonewprivs": func(l *images.Layer) error {
			return l.File("usr/local/bin/nnp", at("nonewprivs"), 0o6755)
		},
		// The DNS servers of the tests are those of the cluster.
		"coredns":          files("coredns", filepath.Join(bundle, "coredns")),
		"boom":             files("regression-issue-74839", at("regression-issue-74839")),
		"device-plugin":    files("sampledeviceplugin", at("sample-device-plugin")),
		"conntrack":        addConntrack,
		"sample-apiserver": files("sample-apiserver", at("sample-apiserver")),
		"pairs":            files("hostpathplugin", at("pairs")),
		"etcd":             files("usr/local/bin/etcd", at("etcd")),
		"pause":            pause,

		// The programs that upstream's consumer starts are one of ours: of those in upstream's image one is Debian's,
		// one Microsoft's.
		"consumer": func(l *images.Layer) error {
			l.Dir("consume-cpu", 0o755)
			return files("consumer", at("consumer"), "consume-cpu/consume-cpu", at("load"), "usr/bin/stress",
				at("load"))(l)
		},
	}
}

// windowsParts are below Files, the root of a Windows layer's files.
func windowsParts(dir, bundle string) map[string]func(*images.Layer) error {
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }

	return map[string]func(*images.Layer) error{
		"windows-consumer": func(l *images.Layer) error {
			l.Dir("Files", 0o755)
			l.Dir("Files/bin", 0o755)
			l.Dir("Files/consume-cpu", 0o755)
			load := at("windows", "load.exe")
			return files("Files/consumer.exe", at("windows", "consumer.exe"), "Files/consume-cpu/consume-cpu.exe", load,
				"Files/bin/testlimit.exe", load)(l)
		},
		"windows-base": func(l *images.Layer) error { return l.WindowsShell(at("windows", "sh.exe")) },
		"windows-agnhost": func(l *images.Layer) error {
			l.Dir("Files/uploads", 0o777)
			// The name in upstream's image. It is no other name of agnhost.exe, onto which a test copies it: Windows
			// does not copy a file onto itself.
			l.Same("Files/agnhost-2.exe", "Files/agnhost")
			return windowsFiles("Files/agnhost.exe", at("windows", "agnhost.exe"), "Files/agnhost-2.exe",
				at("windows", "agnhost.exe"),
				"Files/localhost.crt", at("data", "localhost.crt"), "Files/localhost.key",
				at("data", "localhost.key"))(l)
		},

		"windows-nautilus": windowsFiles("Files/nautilus.jpg", at("data", "nautilus.jpg"), "Files/data.json",
			at("data", "nautilus.json")),
		"windows-kitten": windowsFiles("Files/kitten.jpg", at("data", "kitten.jpg"), "Files/data.json",
			at("data", "kitten.json")),
		"windows-pause": windowsFiles("Files/pause.exe", filepath.Join(bundle, "images", "windows", "pause.exe")),
	}
}

// Users and groups of every Linux image. Tests of volumes expect that group 1000 has no name there.
const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
	group  = "root:x:0:\nnogroup:x:65534:\n"
)

// agnhostEtc are the files of upstream's agnhost image with a user and a group that its tests name.
var agnhostEtc = map[string]string{
	"etc/passwd": passwd + "user-defined-in-image:x:1000:1000::/:/bin/sh\n",
	"etc/group":  group + "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
}

// etc are the files below /etc of every Linux image, by path.
var etc = map[string]string{
	"etc/passwd": passwd,
	"etc/group":  group,
	// A test of image volumes looks for the name of the system that upstream's image is made of.
	"etc/os-release":    "NAME=\"Porthole's stand-in for an image made of Alpine Linux\"\nID=porthole\n",
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

// busybox of Debian's package busybox-static.
const busybox = "/bin/busybox"

// addBase makes a small userland of Debian's static busybox, with our choice of shells (shell/).
func addBase(l *images.Layer, shell string) error {
	for _, d := range []string{"bin", "etc", "home", "root", "usr", "usr/bin", "usr/local", "usr/local/bin", "usr/sbin",
		"var", "sbin", "lib", "lib64", "mnt"} {
		l.Dir(d, 0o755)
	}
	l.Dir("tmp", 0o1777)
	l.Dir("var/tmp", 0o1777) // tests of DaemonSets leave a file there
	for name, content := range etc {
		l.Text(name, content)
	}
	if err := l.File("bin/busybox", busybox, 0o755); err != nil {
		return fmt.Errorf("%w (Debian's package busybox-static has it)", err)
	}

	// The list is busybox's own, so that another version of Debian's needs no change here.
	applets, err := appletsOf(busybox)
	if err != nil {
		return err
	}

	// sh and busybox are not links: sh is our choice of shells.
	for _, name := range applets {
		if name != "busybox" && name != "sh" {
			l.Link("/bin/busybox", "bin/"+name)
		}
	}

	// The program of sh is nmeter too, by its name.
	if err := l.File("bin/nmeter", shell, 0o755); err != nil {
		return err
	}
	if err := l.File("bin/sh", shell, 0o755); err != nil {
		return err
	}
	l.Link("/usr/bin/bash", "bin/bash")
	// Tests of raw devices ask dd for nocache, which that of busybox does not have.
	return errors.Join(l.Program("usr/bin/bash", "/bin/bash"), l.Program("usr/bin/dd", "/bin/dd"))
}

// appletsOf asks busybox for the commands that it is.
func appletsOf(busybox string) ([]string, error) {
	out, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the applets of %s: %w", busybox, err)
	}
	names := strings.Fields(string(out))
	if len(names) == 0 {
		return nil, errors.New("busybox lists no applets")
	}
	return names, nil
}

// tools that the tests call by name and that busybox lacks or does another way, with Debian's package of each.
var tools = map[string]string{
	"/usr/bin/curl": "curl", "/usr/bin/dig": "bind9-dnsutils", "/bin/nc.openbsd": "netcat-openbsd",
	"/usr/bin/wget": "wget", "/bin/ip": "iproute2", "/bin/ss": "iproute2", "/usr/bin/getent": "libc-bin",
}

// addTools copies the programs of this machine with the libraries that they load.
func addTools(l *images.Layer) error {
	for program, from := range tools {
		name := filepath.Base(program)
		if name == "nc.openbsd" {
			name = "nc"
		}
		// A program is taken with the libraries that it loads on this machine.
		if err := l.Program("usr/bin/"+name, program); err != nil {
			return fmt.Errorf("%w (Debian's package %s has it)", err, from)
		}
	}
	l.Link("/usr/bin/bash", "bin/sh") // the shell of busybox would take its own nc
	return nil
}

// addConntrack copies the program by which a test looks at a node's connections.
func addConntrack(l *images.Layer) error {
	if err := l.Program("usr/sbin/conntrack", "/usr/sbin/conntrack"); err != nil {
		return fmt.Errorf("%w (Debian's package conntrack has it)", err)
	}
	return nil
}
