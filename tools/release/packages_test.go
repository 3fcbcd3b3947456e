package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/node/kubelet"
)

// TestVersionOfKubernetes: the packages stand for the release of Kubernetes that the kubelet says it is of.
func TestVersionOfKubernetes(t *testing.T) {
	if kubelet.Version != "v"+kubernetes {
		t.Errorf("the kubelet is %s, the package provides %s", kubelet.Version, kubernetes)
	}
}

// ran returns what a program printed. A program that this machine does not have skips the rest of the check, never the
// test.
func ran(t *testing.T, name string, args ...string) (string, bool) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Logf("not checked: %s is not installed", name)
		return "", false
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), true
}

// checkDeb installs the package with dpkg in a folder that has a shell only, runs the program by both names, and
// removes it.
func checkDeb(t *testing.T, r release) {
	t.Helper()
	file := filepath.Join(r.out, "porthole_1.2.3_amd64.deb")
	if fields, ok := ran(t, "dpkg-deb", "--field", file); ok {
		for _, want := range []string{"Package: porthole\n", "Version: 1.2.3\n", "Provides: kubelet (= 1.36.3)\n",
			"Conflicts: kubelet\n"} {
			if !strings.Contains(fields, want) {
				t.Errorf("the fields lack %q:\n%s", want, fields)
			}
		}
	}
	shell, err := os.ReadFile("/bin/busybox")
	if err != nil || os.Getuid() != 0 {
		t.Logf("not installed: that needs root and /bin/busybox (%v)", err)
		return
	}

	root := t.TempDir()
	for _, dir := range []string{"bin", "var/lib/dpkg/info", "var/lib/dpkg/updates", "run/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	reloaded := []byte("#!/bin/sh\necho \"$@\" >>/reloaded\n")
	if err := errors.Join(os.WriteFile(filepath.Join(root, "bin/sh"), shell, 0o755),
		os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644),
		os.WriteFile(filepath.Join(root, "bin/systemctl"), reloaded, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, ok := ran(t, "dpkg", "--root="+root, "--force-bad-path", "-i", file); !ok {
		return
	}
	checkInstalled(t, root, "/etc/default")
	if done, err := os.ReadFile(filepath.Join(root, "reloaded")); err != nil || string(done) != "daemon-reload\n" {
		t.Errorf("installing asked systemd for %q, %v", done, err)
	}

	ran(t, "dpkg", "--root="+root, "--force-bad-path", "--purge", "porthole")
	for _, path := range []string{"usr", "etc"} {
		if left, err := os.ReadDir(filepath.Join(root, path)); err == nil && len(left) > 0 {
			t.Errorf("left after the removal: %s/%s", path, left[0].Name())
		}
	}
}

// checkInstalled looks at a root folder with the package installed.
func checkInstalled(t *testing.T, root, defaults string) {
	t.Helper()
	for _, name := range []string{"porthole", "kubelet"} {
		at := filepath.Join(root, "usr/bin", name)
		resolved, err := filepath.EvalSymlinks(at)
		if want := filepath.Join(root, "usr/lib/porthole/v1.2.3/porthole"); err != nil || resolved != want {
			t.Errorf("%s leads to %s, %v; want %s", at, resolved, err, want)
		}
		// The program of the test is a CNI plugin, which prints what it is.
		if out, err := exec.Command(at).CombinedOutput(); err != nil || !strings.Contains(string(out), "CNI") {
			t.Errorf("%s: %v\n%s", at, err, out)
		}
	}
	for path, want := range map[string]string{
		"usr/lib/systemd/system/kubelet.service":                    "ExecStart=/usr/bin/kubelet\n",
		"usr/lib/systemd/system/kubelet.service.d/20-porthole.conf": "EnvironmentFile=-" + defaults + "/kubelet\n",
		"usr/lib/systemd/system/porthole-routes.service": "EnvironmentFile=-" + defaults +
			"/porthole-routes\n",
		defaults + "/porthole-routes": "# PORTHOLE_ROUTES_ARGS=",
	} {
		if text, err := os.ReadFile(filepath.Join(root, path)); err != nil || !strings.Contains(string(text), want) ||
			strings.Contains(string(text), "@") {
			t.Errorf("%s: %v; want %q in\n%s", path, err, want, text)
		}
	}
}

// checkRPM unpacks the package with the tools of busybox, and checks its sums with rpm where that is installed.
func checkRPM(t *testing.T, r release) {
	t.Helper()
	file := filepath.Join(r.out, "porthole-1.2.3-1.x86_64.rpm")
	if info, ok := ran(t, "busybox", "rpm", "-qip", file); ok &&
		(!strings.Contains(info, "Name        : porthole") || !strings.Contains(info, "Version     : 1.2.3")) {
		t.Errorf("busybox reads\n%s", info)
	}
	if list, ok := ran(t, "busybox", "rpm", "-qlp", file); ok &&
		(!strings.Contains(list, "/usr/bin/kubelet\n") ||
			!strings.Contains(list, "/usr/lib/porthole/v1.2.3/porthole\n")) {
		t.Errorf("busybox lists\n%s", list)
	}
	root := t.TempDir()
	if _, ok := ran(t, "busybox", "sh", "-c",
		fmt.Sprintf("cd %s && busybox rpm2cpio %s | busybox cpio -id", root, file)); ok {
		checkInstalled(t, root, "/etc/sysconfig")
	}

	if out, ok := ran(t, "rpm", "-K", "--nosignature", file); ok && !strings.Contains(out, "digests OK") {
		t.Errorf("rpm says %s", out)
	}
	if out, ok := ran(t, "rpm", "-qp", "--provides", "--conflicts", file); ok &&
		(!strings.Contains(out, "kubelet = 1.36.3") || !strings.Contains(out, "porthole = 1.2.3-1")) {
		t.Errorf("rpm says\n%s", out)
	}
	if out, ok := ran(t, "rpm", "-qp", "--queryformat", "%{BUILDHOST} %{BUILDTIME}\n", "--configfiles", file); ok &&
		out != "localhost 1700000000\n/etc/sysconfig/porthole-routes\n" {
		t.Errorf("rpm says\n%s", out)
	}
	if os.Getuid() == 0 {
		root := t.TempDir()
		if _, ok := ran(t, "rpm", "--root", root, "--nodeps", "--noscripts", "-i", file); ok {
			checkInstalled(t, root, "/etc/sysconfig")
			ran(t, "rpm", "--root", root, "-V", "--nodeps", "porthole")
		}
	}
}

// TestPrerelease: the version of a release candidate sorts before that of its release.
func TestPrerelease(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	r := tree(t, built(t), 0o644)
	r.version = "v1.2.3-rc.1"
	if err := errors.Join(r.ask(t.Context()), os.MkdirAll(r.out, 0o755)); err != nil {
		t.Fatal(err)
	}
	made, err := r.packages()
	if err != nil {
		t.Fatal(err)
	}
	deb, rpm := filepath.Join(r.out, "porthole_1.2.3~rc.1_amd64.deb"),
		filepath.Join(r.out, "porthole-1.2.3~rc.1-1.x86_64.rpm")
	if !slices.Equal(made, []string{deb, rpm}) {
		t.Errorf("made %v", made)
	}
	if version, ok := ran(t, "dpkg-deb", "--field", deb, "Version"); ok {
		ran(t, "dpkg", "--compare-versions", strings.TrimSpace(version), "lt", "1.2.3")
	}
	if out, ok := ran(t, "rpm", "-qp", "--queryformat", "%{VERSION}-%{RELEASE}", rpm); ok && out != "1.2.3~rc.1-1" {
		t.Errorf("rpm says %s", out)
	}
}

// checkImage follows the archive from its index to the files, and compares each sum on the way.
func checkImage(t *testing.T, r release, file, entrypoint string, has ...string) {
	t.Helper()
	f, err := os.Open(filepath.Join(r.out, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := untar(t, f)

	read := func(d v1.Descriptor, into any) []byte {
		data := files["blobs/sha256/"+d.Digest.Encoded()]
		if digest.FromBytes(data) != d.Digest || int64(len(data)) != d.Size {
			t.Errorf("%s has %d bytes with another sum", d.Digest, len(data))
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Error(err)
			}
		}
		return data
	}
	var index v1.Index
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index.json: %v, %s", err, files["index.json"])
	}
	var manifest v1.Manifest
	read(index.Manifests[0], &manifest)
	var config v1.Image
	read(manifest.Config, &config)
	layer := gunzip(t, read(manifest.Layers[0], nil))
	if config.RootFS.DiffIDs[0] != digest.FromBytes(layer) ||
		!slices.Equal(config.Config.Entrypoint, []string{entrypoint}) {
		t.Errorf("configuration %+v", config)
	}
	inside := untar(t, bytes.NewReader(layer))
	for _, name := range has {
		if len(inside[name]) == 0 {
			t.Errorf("the layer of %s lacks %s", file, name)
		}
	}
}

// untar returns the files of an archive by name.
func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(from); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSigning: the user's commands get each .exe of the archive for Windows, each package, and the list of sums; a
// command that fails ends the release with what it printed.
func TestSigning(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	log := filepath.Join(t.TempDir(), "signed")
	for _, variable := range []string{signPrograms, signPackages, signSums} {
		t.Setenv(variable, "f() { echo "+variable+" $(basename $1) >>"+log+"; echo signed >>$1; }; f")
	}
	r := tree(t, built(t), 0o644)
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RELEASE_AUTHENTICODE porthole.exe\n", "RELEASE_AUTHENTICODE cni-win-bridge.exe\n",
		"RELEASE_PKG porthole_1.2.3_amd64.deb\n",
		"RELEASE_PKG porthole-1.2.3-1.x86_64.rpm\n", "RELEASE_SIGN porthole-v1.2.3.SHA256SUMS\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not among\n%s", want, text)
		}
	}
	if original, err := os.ReadFile(filepath.Join(r.root, "bin/windows/kube-proxy.exe")); err != nil ||
		strings.Contains(string(original), "signed") {
		t.Errorf("the program that was built has changed: %v", err)
	}
	checkWindows(t, r)

	t.Setenv(signSums, "echo no key here; false")
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "RELEASE_SIGN on") ||
		!strings.Contains(err.Error(), "no key here") {
		t.Error(err)
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	in, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
