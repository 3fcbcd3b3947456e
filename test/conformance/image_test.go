package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Each layer that an image names is there, and each image can be started or names no program on purpose.
func TestImagesNameLayers(t *testing.T) {
	known := parts("programs", "bundle")
	for _, i := range images() {
		if len(i.tags) == 0 || i.linux == nil {
			t.Errorf("%s has no tag or no Linux variant", i.repository)
		}
		for _, v := range []*variant{i.linux, i.windows} {
			if v == nil {
				continue
			}
			for _, name := range v.layers {
				if known[name] == nil {
					t.Errorf("%s names layer %q, which nothing makes", i.repository, name)
				}
			}
			if len(v.entrypoint)+len(v.args) == 0 {
				t.Errorf("%s starts nothing", i.repository)
			}
		}
	}
}

func TestLayer(t *testing.T) {
	from := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	fill := func() []byte {
		l := newLayer()
		if err := l.file("usr/local/bin/p", from, 0o6755); err != nil {
			t.Fatal(err)
		}
		l.dir("usr", 0o755)
		l.link("/usr/local/bin/p", "bin/q")
		l.text("etc/f", "text")
		l.same("usr/local/bin/p", "usr/local/bin/a")
		data, err := l.tar()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}

	data := fill()
	if !bytes.Equal(data, fill()) {
		t.Error("the same files gave other bytes")
	}

	var names []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Name == "usr/local/bin/p" && h.Mode != 0o6755 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
	}

	if want := []string{"bin/q", "etc/f", "usr/", "usr/local/bin/p", "usr/local/bin/a"}; !slices.Equal(names, want) {
		t.Errorf("entries %v, want %v", names, want)
	}
	if err := newLayer().file("x", from+".none", 0o644); err == nil {
		t.Error("a file that is not there was added without an error")
	}
}

// A program of this machine brings its loader and all libraries, those that libraries need included.
func TestProgramBringsLibraries(t *testing.T) {
	const program = "/bin/bash"
	if _, err := os.Stat(program); err != nil {
		t.Skip("no " + program + " here")
	}
	l := newLayer()
	if err := l.program("bin/bash", program); err != nil {
		t.Fatal(err)
	}
	libc := false
	for name := range l.entries {
		libc = libc || filepath.Base(name) == "libc.so.6"
	}
	if _, loader := l.entries["lib64/ld-linux-x86-64.so.2"]; !libc || !loader {
		t.Errorf("the C library is there: %v, the loader: %v", libc, loader)
	}
}
