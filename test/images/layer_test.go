package images

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLayer: a layer has the files, folders and links that it was given, and the same bytes each time.
func TestLayer(t *testing.T) {
	from := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	fill := func() []byte {
		l := NewLayer()
		if err := l.File("usr/local/bin/p", from, 0o6755); err != nil {
			t.Fatal(err)
		}
		l.Dir("usr", 0o755)
		l.Link("/usr/local/bin/p", "bin/q")
		l.Text("etc/f", "text")
		l.Same("usr/local/bin/p", "usr/local/bin/a")
		data, err := l.Tar()
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
	if err := NewLayer().File("x", from+".none", 0o644); err == nil {
		t.Error("a file that is not there was added without an error")
	}
}

// A program of this machine brings its loader and all libraries, those that libraries need included.
func TestProgramBringsLibraries(t *testing.T) {
	const program = "/bin/bash"
	if _, err := os.Stat(program); err != nil {
		t.Skip("no " + program + " here")
	}
	l := NewLayer()
	if err := l.Program("bin/bash", program); err != nil {
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
