package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/test/images"
)

// Each layer that an image names is there, and each image can be started or names no program on purpose.
func TestImagesNameLayers(t *testing.T) {
	known := parts("programs", "bundle")
	for _, i := range suiteImages() {
		if len(i.Tags) == 0 || i.Linux == nil {
			t.Errorf("%s has no tag or no Linux variant", i.Repository)
		}
		for _, v := range []*images.Variant{i.Linux, i.Windows} {
			if v == nil {
				continue
			}
			for _, name := range v.Layers {
				if known[name] == nil {
					t.Errorf("%s names layer %q, which nothing makes", i.Repository, name)
				}
			}
			if len(v.Entrypoint)+len(v.Args) == 0 {
				t.Errorf("%s starts nothing", i.Repository)
			}
		}
	}
}

// TestWindowsLayersHaveFolders: in a layer of a Windows image each folder comes before what is in it, since hcsshim
// makes none by itself.
func TestWindowsLayersHaveFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"windows/agnhost.exe", "data/localhost.crt", "data/localhost.key",
		"data/nautilus.jpg", "data/nautilus.json",
		"data/kitten.jpg", "data/kitten.json", "images/windows/pause.exe", "windows/consumer.exe", "windows/load.exe"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}

	for name, fill := range parts(dir, dir) {
		if !strings.HasPrefix(name, "windows-") || name == "windows-base" {
			continue
		}
		layer := images.NewLayer()
		if err := fill(layer); err != nil {
			t.Fatal(err)
		}
		content, err := layer.Tar()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{".": true}
		for r := tar.NewReader(bytes.NewReader(content)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !have[path.Dir(strings.TrimSuffix(h.Name, "/"))] {
				t.Errorf("%s: %s comes before its folder", name, h.Name)
			}
			have[strings.TrimSuffix(h.Name, "/")] = true
		}
	}
}
