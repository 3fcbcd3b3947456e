package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// built is a real program with modules of others. tree puts it in the place of each porthole.
func built(t *testing.T) []byte {
	t.Helper()
	return builtFor(t, "linux")
}

// tree makes a repository after a build: each part of the archives is there, as a file, or a folder with one.
func tree(t *testing.T, program []byte, perm os.FileMode) release {
	t.Helper()
	r := release{level: gzip.BestSpeed, version: "v1.2.3", root: t.TempDir(), out: filepath.Join(t.TempDir(), "dist")}
	for _, p := range slices.Concat(linuxArchive(r.version).parts, windowsArchive(r.version).parts) {
		at, content := filepath.Join(r.root, p.from), []byte("file "+p.from)
		switch path.Base(p.from) {
		case "root":
			rootFolder(t, at)
			continue
		case "dll", "cni", "images":
			at = filepath.Join(at, "inside")
		case "porthole", "porthole.exe", "kubelet.exe":
			content = program
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, content, perm)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// rootFolder makes a folder as tools/root does: behind a link, with links and modes that stay.
func rootFolder(t *testing.T, at string) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(at), "roots", "sum")
	program := filepath.Join(dir, "usr/bin/own")
	err := errors.Join(
		os.MkdirAll(filepath.Dir(program), 0o755), os.WriteFile(program, []byte("ELF"), 0o755),
		os.Symlink("own", filepath.Join(dir, "usr/bin/link")),
		os.WriteFile(filepath.Join(dir, "packages"), []byte("# name\nown 1:2+b1 3 0123 pool/own.deb\n"), 0o644),
		os.Symlink("roots/sum", at),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// TestReproducible: two runs in two folders, on files of other times and permissions, give the same bytes.
// Rows 1.110, 1.111.
func TestReproducible(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	program := built(t)

	var sums [2]string
	for i, perm := range []os.FileMode{0o644, 0o755} {
		r := tree(t, program, perm)
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(r.out, "porthole-v1.2.3.SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(data)
		if i == 0 {
			checkLinux(t, r)
			checkWindows(t, r)
			checkDeb(t, r)
			checkRPM(t, r)
			checkImage(t, r, "porthole-node-v1.2.3-linux-amd64.oci.tar", "/porthole", "porthole",
				"usr/share/porthole/sbom.cdx.json")
			checkImage(t, r, "porthole-v1.2.3.oci.tar", "/porthole/porthole", "porthole/porthole",
				"porthole/root/usr/bin/own", "porthole/sbom.cdx.json")
		}
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 7 {
		t.Errorf("sums of the first run\n%sof the second\n%s", sums[0], sums[1])
	}
}

// checkLinux looks at the archive for Linux: modes, times, one copy of kubelet.exe, and the sums in it.
func checkLinux(t *testing.T, r release) {
	t.Helper()
	f, err := os.Open(filepath.Join(r.out, "porthole-v1.2.3-linux-amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}

	top := "porthole-v1.2.3-linux-amd64/"
	files := map[string][]byte{}
	for in := tar.NewReader(zipped); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, top)
		if h.Typeflag == tar.TypeLink {
			data = files[strings.TrimPrefix(h.Linkname, top)]
		}
		if name == "windows/porthole.exe" && h.Typeflag != tar.TypeLink {
			t.Error("porthole.exe and kubelet.exe are in the archive twice")
		}

		files[name] = data
		if name == "root/usr/bin/link" {
			if h.Typeflag != tar.TypeSymlink || h.Linkname != "own" {
				t.Errorf("%s is of kind %q and leads to %q", name, h.Typeflag, h.Linkname)
			}
			delete(files, name)
			continue
		}
		isProgram := name == "porthole" || name == "root/usr/bin/own" || strings.Contains(string(data), "file bin/") ||
			strings.HasSuffix(name, ".exe")
		if !h.ModTime.Equal(time.Unix(1700000000, 0)) || (h.Mode == 0o755) != isProgram {
			t.Errorf("%s has mode %o and time %s", name, h.Mode, h.ModTime)
		}
	}
	checkSums(t, files)
	checkBill(t, files["sbom.cdx.json"])
}

// checkWindows looks at the archive for Windows.
func checkWindows(t *testing.T, r release) {
	t.Helper()
	in, err := zip.OpenReader(filepath.Join(r.out, "porthole-v1.2.3-windows-amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	files := map[string][]byte{}
	for _, f := range in.File {
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"porthole.exe", "kube-proxy.exe", "cni/win-bridge.exe", "containerd/containerd.exe",
		"README.md", "LICENSE"} {
		if len(files[want]) == 0 {
			t.Errorf("%s is not in the archive: %v", want, slices.Sorted(maps.Keys(files)))
		}
	}
	checkSums(t, files)
}

// checkSums compares SHA256SUMS with the files, which must all be in it.
func checkSums(t *testing.T, files map[string][]byte) {
	t.Helper()
	var want strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != "SHA256SUMS" {
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(files[name]), name)
		}
	}
	if got := string(files["SHA256SUMS"]); got != want.String() {
		t.Errorf("SHA256SUMS is\n%s\nwant\n%s", got, want.String())
	}
}

// checkBill expects that the bill of materials lists the modules in the program porthole and the packages of the root
// folder, and that it lists no file that is not a program.
func checkBill(t *testing.T, data []byte) {
	t.Helper()
	var b bill
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	isPackage := func(c component) bool {
		return c.PURL == "pkg:deb/debian/own@1%3A2%2Bb1" && c.Hashes[0].Content == "0123"
	}
	if !slices.ContainsFunc(b.Components, isPackage) {
		t.Errorf("the package own of the root folder is not there:\n%s", data)
	}
	for _, c := range b.Components {
		if c.Name == "LICENSE" {
			t.Error("LICENSE is a component")
		}
		if c.Name == "porthole" && c.Type == "application" && slices.ContainsFunc(c.Components, func(m component) bool {
			return strings.HasPrefix(m.PURL, "pkg:golang/github.com/containernetworking/cni@v")
		}) {
			return
		}
	}
	t.Errorf("porthole is not there with its modules:\n%s", data)
}

// TestMissing: what was not built, a bad version and a module without a license are named.
func TestMissing(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	for name, c := range map[string]struct {
		change func(r *release)
		want   string
	}{
		"not built": {func(r *release) { os.Remove(filepath.Join(r.root, "bin/bundle/kube")) },
			"bin/bundle/kube is missing: `make build` builds it"},
		"no runtime": {func(r *release) { os.Remove(filepath.Join(r.root, "bin/bundle/windows/containerd.exe")) },
			"`make windows-runtime` builds it"},
		"no version": {func(r *release) { r.version = "" }, "make release VERSION=v0.1.0"},
		"a path":     {func(r *release) { r.version = "v1.0.0/x" }, "v1.0.0/x"},
		"no modules": {func(*release) {}, "no program has modules"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tree(t, []byte("not a program"), 0o644)
			c.change(&r)
			if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if made, _ := filepath.Glob(filepath.Join(r.out, "*")); len(made) > 0 {
				t.Errorf("left behind: %v", made)
			}
		})
	}
}

// TestLicenses: the folder of a module has capitals escaped; one without a license is an error.
func TestLicenses(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "github.com/!microsoft/hcsshim@v1.0.0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	list := []debug.Module{{Path: "github.com/Microsoft/hcsshim", Version: "v1.0.0"}}
	if _, err := licenses(list, cache); err == nil || !strings.Contains(err.Error(), "has no license") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := licenses(list, cache); err != nil || len(got) != 1 ||
		got[0].name != "licenses/github.com/Microsoft/hcsshim@v1.0.0/LICENSE.txt" {
		t.Errorf("%+v, %v", got, err)
	}
}
