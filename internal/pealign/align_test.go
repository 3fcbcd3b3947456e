package pealign

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program builds a program for Windows.
func program(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.exe")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../../tools/pealign")
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// memory returns a program's sections by address, as a loader puts them into memory before it applies relocations.
func memory(t *testing.T, data []byte) map[uint32][]byte {
	t.Helper()
	f, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}

	out := map[uint32][]byte{}
	for _, s := range f.Sections {
		loaded := make([]byte, (s.VirtualSize+page-1)/page*page)
		if s.Offset > 0 {
			raw, err := s.Data()
			if err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			copy(loaded, raw)
		}
		out[s.VirtualAddress] = loaded
	}
	return out
}

func TestAlign(t *testing.T) {
	from := program(t)
	to, err := align(from)
	if err != nil {
		t.Fatal(err)
	}

	before, after := memory(t, from), memory(t, to)
	if len(before) < 5 || len(after) != len(before) {
		t.Fatalf("%d sections became %d", len(before), len(after))
	}

	for at, want := range before {
		if !bytes.Equal(after[at], want) {
			t.Errorf("the section at %#x is loaded with another content", at)
		}
	}

	was, _ := pe.NewFile(bytes.NewReader(from))
	is, _ := pe.NewFile(bytes.NewReader(to))
	for i, s := range is.Sections {
		if s.Offset%page != 0 || s.Size%page != 0 || int(s.Offset+s.Size) > len(to) {
			t.Errorf("%s lies at %#x with %#x bytes of a file of %#x", s.Name, s.Offset, s.Size, len(to))
		}
		if o := was.Sections[i]; s.Name != o.Name || s.Characteristics != o.Characteristics ||
			s.VirtualSize != o.VirtualSize {
			t.Errorf("section %+v became %+v", o.SectionHeader, s.SectionHeader)
		}
	}

	h, o := *is.OptionalHeader.(*pe.OptionalHeader64), *was.OptionalHeader.(*pe.OptionalHeader64)
	if h.FileAlignment != page || h.SizeOfHeaders != page || o.FileAlignment != 512 {
		t.Errorf("alignment %d became %d, headers have %d bytes", o.FileAlignment, h.FileAlignment, h.SizeOfHeaders)
	}
	if h.FileAlignment, h.SizeOfHeaders = o.FileAlignment, o.SizeOfHeaders; h != o {
		t.Errorf("the header %+v became %+v", o, h)
	}

	if again, err := align(to); err != nil || !bytes.Equal(again, to) {
		t.Errorf("a second time it is changed again, or refused: %v", err)
	}
}

func TestAlignRefuses(t *testing.T) {
	from := program(t)
	signature := int(binary.LittleEndian.Uint32(from[peOffsetAt:]))
	for _, c := range []struct {
		name, want string
		at         int
		value      uint32
	}{
		{"checksum", "checksum", optionalAt + 64, 7},
		{"signed", "signature", optionalAt + 112 + 8*pe.IMAGE_DIRECTORY_ENTRY_SECURITY + 4, 8},
		{"dense", "apart", optionalAt + 32, 512},
		{"symbols", "symbols", symbolsAt, 16},
	} {
		data := bytes.Clone(from)
		binary.LittleEndian.PutUint32(data[signature+c.at:], c.value)
		if _, err := align(data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}

	if _, err := align([]byte("#!/bin/sh\n")); err == nil {
		t.Error("a script was aligned")
	}
}

// TestAlignFile: a process that has the old file open still reads all of it, and the new file can be run.
func TestAlignFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.exe"), filepath.Join(dir, "to.exe")
	data := program(t)
	if err := errors.Join(os.WriteFile(from, data, 0o755), os.WriteFile(to, []byte("old"), 0o755)); err != nil {
		t.Fatal(err)
	}

	running, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	if err := File(from, to); err != nil {
		t.Fatal(err)
	}

	if old, err := io.ReadAll(running); err != nil || string(old) != "old" {
		t.Errorf("the old file has %d bytes now: %v", len(old), err)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o755 || info.Size() <= int64(len(data)) {
		t.Errorf("%v, %v", info, err)
	}

	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v is left", left)
	}
}
