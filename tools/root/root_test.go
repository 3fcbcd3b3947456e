package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"porthole.dev/porthole/internal/ownroot"
)

const testIndex = `Package: wine
Version: 10.0~repack-6
Depends: libc6 (>= 2.38), libwine (= 10.0), sound | silence, mail-agent
Pre-Depends: dash:any
Filename: pool/w/wine.deb
Size: 12
SHA256: 0123

Package: libc6
Depends: libwine
Size: 1

Package: libwine
Depends: picture, exim-like | exim

Package: dash
Package: sound
Package: silence
Package: postbox
Provides: mail-agent (= 1), exim
Package: unused
`

func index(t *testing.T) map[string]*pkg {
	t.Helper()
	// Paragraphs of one field each need their empty lines.
	all, err := parseIndex(strings.NewReader(strings.ReplaceAll(testIndex, "\nPackage: ", "\n\nPackage: ")))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func listed(list []*pkg) string {
	var names []string
	for _, p := range list {
		names = append(names, p.name)
	}
	return strings.Join(names, " ")
}

func TestClosure(t *testing.T) {
	all := index(t)
	w := all["wine"]
	if w.version != "10.0~repack-6" || w.path != "pool/w/wine.deb" || w.size != 12 || w.sha256 != "0123" {
		t.Errorf("%+v", w)
	}
	for _, c := range []struct{ wanted, excluded, list, err string }{
		{"wine", "picture", "dash libc6 libwine postbox sound wine", ""},
		{"silence wine", "picture", "dash libc6 libwine postbox silence wine", ""}, // an alternative that is there
		{"wine", "picture sound postbox", "dash libc6 libwine wine", ""},
		{"wine", "picture mail-agent", "dash libc6 libwine postbox sound wine", ""}, // it is exim too
		{"wine", "", "", "package libwine: the index has none of what it needs: picture"},
		{"absent", "", "", "the index has no package absent"},
	} {
		list, err := closure(all, strings.Fields(c.wanted), strings.Fields(c.excluded))
		if text := fmt.Sprint(err); err != nil && text != c.err ||
			err == nil && (c.err != "" || listed(list) != c.list) {
			t.Errorf("%s without %s: %s, %v; want %s, %s", c.wanted, c.excluded, listed(list), err, c.list, c.err)
		}
	}
	_, err := parseIndex(strings.NewReader("Package: a\nSize: many\n"))
	if err == nil || !strings.Contains(err.Error(), "package a") {
		t.Errorf("a size that is no number: %v", err)
	}
}

// TestRootLock: the lock of the repository is one, names Wine 10, and nothing that is excluded; it reads back as it is
// written.
func TestRootLock(t *testing.T) {
	list, err := parseLock(rootLock)
	if err != nil {
		t.Fatal(err)
	}
	if formatLock(list) != rootLock {
		t.Error("it is not what formatLock writes")
	}
	names := " " + listed(list) + " "
	for _, name := range wanted {
		if !strings.Contains(names, " "+name+" ") {
			t.Errorf("it lacks %s", name)
		}
	}
	for _, name := range excluded {
		if strings.Contains(names, " "+name+" ") {
			t.Errorf("it has %s", name)
		}
	}

	if strings.Contains(rootLock, "://") {
		t.Error("it names a host")
	}
	for _, bad := range []string{"", "# nothing\n", "wine 10 x 01 pool\n", "wine 10 1 01\n"} {
		if _, err := parseLock(bad); err == nil {
			t.Errorf("%q is a lock", bad)
		}
	}
}

func TestNeeded(t *testing.T) {
	for name, want := range map[string]bool{
		"usr/bin/bash": true, "usr/share/wine/wine.inf": true, "lib64": true, "etc/passwd": false, "var/lib/x": false,
		"usr/share/doc/wine64/copyright": true, "usr/share/doc/wine64/changelog.gz": false,
		"usr/share/man/man1/ls.1.gz": false, "usr/share/manual": true, "etc/ld.so.conf.d/x.conf": true,
		"usr/lib/x86_64-linux-gnu/wine/x86_64-unix/winex11.so": false,
		"usr/lib/x86_64-linux-gnu/wine/x86_64-unix/ntdll.so":   true,
		"usr/lib/x86_64-linux-gnu/wine/i386-windows/a.dll":     false,
		"usr/lib/frr/ldpd": false, "usr/lib/frr/bgpd": true, "usr/lib/frr/mgmtd": true,
		"usr/bin/ovsdb-client": false, "usr/bin/ovsdb-tool": true,
		"usr/lib/x86_64-linux-gnu/libstdc++.so.6": false, "usr/lib/x86_64-linux-gnu/liblua5.3.so.0": true,
		windowsFolder + "/mshtml.tlb": false, windowsFolder + "/hh.exe": false, windowsFolder + "/msxml3.dll": true,
		windowsFolder + "/msvcp71.dll": false, windowsFolder + "/msvcr120.dll": true,
		zlib: true, "usr/x86_64-w64-mingw32/lib/libz.a": false,
	} {
		if got := needed(name, false); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// deb makes a package with these files; a name that ends with an arrow and a target is a link.
func deb(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for name, text := range files {
		h := &tar.Header{Name: "./" + name, Mode: 0o4755, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if at, target, ok := strings.Cut(name, "→"); ok {
			h = &tar.Header{Name: "./" + at, Linkname: target, Typeflag: tar.TypeSymlink}
		}
		if err := errors.Join(w.WriteHeader(h)); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	xz := exec.Command("xz", "-c")
	xz.Stdin = &data
	packed, err := xz.Output()
	if err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range []struct{ name, text string }{{"debian-binary", "2.0"}, {"data.tar.xz", string(packed)}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", m.name, 0, 0, 0, 0o100644, len(m.text), m.text)
		if len(m.text)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// debian serves packages of its own, and returns what makeRoot wants for them in dir.
func debian(t *testing.T, dir string, packages map[string][]byte) options {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := packages[strings.TrimPrefix(r.URL.Path, "/debian/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(data)
	}))
	t.Cleanup(server.Close)
	o := options{
		dir:    dir,
		newest: func(context.Context, string) ([]*pkg, error) { return nil, errors.New("no index") },
		mirror: func(context.Context) (string, error) { return server.URL + "/debian", nil },
	}
	for path, data := range packages {
		sum := sha256.Sum256(data)
		p := &pkg{name: path, version: "1", path: path, size: int64(len(data)), sha256: hex.EncodeToString(sum[:])}
		o.list = append(o.list, p)
	}
	o.lock = formatLock(o.list)
	return o
}

// TestMakeRoot: a root folder has the files of its packages, without rights of their own, and is made once.
func TestMakeRoot(t *testing.T) {
	files := map[string]string{"usr/bin/a": "A", "usr/sbin/iptables-nft": "I", "usr/share/man/a": "M",
		"bin→usr/bin": ""}
	o := debian(t, filepath.Join(t.TempDir(), "roots"), map[string][]byte{"a.deb": deb(t, files)})
	dir, err := makeRoot(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(dir, "bin/a")); err != nil || st.Mode() != 0o755 {
		t.Errorf("a: %v, %v", st, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "usr/sbin/iptables")); target != "iptables-nft" {
		t.Errorf("iptables leads to %q, %v", target, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr/share")); err == nil {
		t.Error("there is a manual")
	}
	o.mirror = func(context.Context) (string, error) { return "", errors.New("it is asked for") }
	if again, err := makeRoot(t.Context(), o); again != dir || err != nil {
		t.Errorf("the second time: %s, %v", again, err)
	}
}

// folder is where the root folder will be.
func folder(t *testing.T, o options) string {
	t.Helper()
	sum, err := o.checksum()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(o.dir, sum)
}

// TestNewerPackage: a package that the mirror has replaced is taken in its newer version.
func TestNewerPackage(t *testing.T) {
	packages := map[string][]byte{"a.deb": deb(t, map[string]string{"usr/bin/a": "old"})}
	o := debian(t, t.TempDir(), packages)
	delete(packages, "a.deb")
	packages["a2.deb"] = deb(t, map[string]string{"usr/bin/a": "new"})
	sum := sha256.Sum256(packages["a2.deb"])
	o.newest = func(context.Context, string) ([]*pkg, error) {
		size := int64(len(packages["a2.deb"]))
		return []*pkg{{name: "a.deb", version: "2", path: "a2.deb", size: size,
			sha256: hex.EncodeToString(sum[:])}}, nil
	}
	dir, err := makeRoot(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(filepath.Join(dir, "usr/bin/a"))
	list, _ := os.ReadFile(filepath.Join(dir, "packages"))
	if string(a) != "new" || !strings.Contains(string(list), "a.deb 2 ") {
		t.Errorf("a is %q, of\n%s", a, list)
	}
}

// TestPrograms: a root folder has programs of ours; with another one it is another folder.
func TestPrograms(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ours")
	o := debian(t, t.TempDir(), map[string][]byte{"a.deb": deb(t, map[string]string{"usr/bin/a": "A"})})
	o.programs = []string{program}
	var dirs []string
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(program, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dir, err := makeRoot(t.Context(), o)
		if data, e := os.ReadFile(filepath.Join(dir, "usr/sbin/ours")); err != nil || e != nil || string(data) != text {
			t.Errorf("%v, %v: %q", err, e, data)
		}
		dirs = append(dirs, dir)
	}
	if dirs[0] == dirs[1] {
		t.Error("both are one folder")
	}
}

// TestMakeRootFails: whatever goes wrong, there is no root folder that looks whole, and the next try makes it.
func TestMakeRootFails(t *testing.T) {
	good := map[string][]byte{
		"a.deb": deb(t, map[string]string{"usr/bin/a": "A"}), "b.deb": deb(t, map[string]string{"usr/bin/b": "B"}),
	}
	for name, c := range map[string]struct {
		spoil func(o *options, packages map[string][]byte)
		want  string
	}{
		"a damaged download": {func(_ *options, p map[string][]byte) { p["b.deb"][70] ^= 1 },
			"damaged: it has"},
		"a download that is cut short": {func(_ *options, p map[string][]byte) { p["b.deb"] = p["b.deb"][:100] },
			"damaged: it has 100 bytes"},
		"a package that is gone": {func(_ *options, p map[string][]byte) { delete(p, "b.deb") },
			"b.deb 1 is not there any more, and its newer version was not found: no index"},
		"no mirror": {func(o *options, _ map[string][]byte) {
			o.mirror = func(context.Context) (string, error) { return "", errors.New("no mirror") }
		}, "no mirror"},
		"what is left of an earlier try": {func(o *options, _ map[string][]byte) {
			o.mirror = func(context.Context) (string, error) {
				return "", os.WriteFile(folder(t, *o), nil, 0o644)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			packages := map[string][]byte{}
			for name, data := range good {
				packages[name] = bytes.Clone(data)
			}

			o := debian(t, t.TempDir(), packages)
			mirror := o.mirror
			c.spoil(&o, packages)
			dir, err := makeRoot(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v; want %s", dir, err, c.want)
			}
			if _, err := os.Stat(folder(t, o)); err == nil && ownroot.Check(folder(t, o)) == nil {
				t.Error("it looks whole")
			}
			for name, data := range good {
				packages[name] = data
			}
			o.mirror = mirror
			dir, err = makeRoot(t.Context(), o)
			for _, name := range []string{"a", "b"} {
				if _, e := os.Stat(filepath.Join(dir, "usr/bin", name)); err != nil || e != nil {
					t.Errorf("then: %v, %v", err, e)
				}
			}
		})
	}

	if err := full(fmt.Errorf("writing: %w", syscall.ENOSPC), "/d"); !strings.Contains(err.Error(),
		"needs 1.5 GB in /d") {
		t.Error(err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := os.WriteFile("/dev/full", []byte("x"), 0); !errors.Is(full(err, "/d"), syscall.ENOSPC) {
			t.Error(err)
		}
	}
}

// TestUnpackStaysBelow: a package cannot write outside of the root folder.
func TestUnpackStaysBelow(t *testing.T) {
	for _, name := range []string{"usr/bin→/", "usr/lib/x/../../../../escaped"} {
		outer := t.TempDir()
		if err := os.Mkdir(filepath.Join(outer, "root"), 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(filepath.Join(outer, "root"))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for i, files := range []map[string]string{{name: "x"}, {"usr/bin" + outer + "/escaped": "x"}} {
			file := filepath.Join(outer, fmt.Sprint(i))
			if err := os.WriteFile(file, deb(t, files), 0o644); err != nil {
				t.Fatal(err)
			}
			_ = unpack(t.Context(), file, root) // it fails, or it writes below
		}
		if _, err := os.Stat(filepath.Join(outer, "escaped")); err == nil {
			t.Errorf("%s: it wrote outside", name)
		}
	}
}
