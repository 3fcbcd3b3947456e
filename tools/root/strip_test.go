package main

import (
	"bytes"
	"debug/pe"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// library compiles a library for Windows, with debugging information, into the folder of Wine's below root.
func library(t *testing.T, root, name string) string {
	t.Helper()
	dir := filepath.Join(root, windowsFolder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	compiler := exec.Command("x86_64-w64-mingw32-gcc", "-g", "-shared", "-nostdlib",
		"-o", filepath.Join(dir, name), "-x", "c", "-", "-lws2_32")
	compiler.Stdin = strings.NewReader(`
		__declspec(dllimport) int closesocket(unsigned long long);
		int answer = 42;
		int DllMainCRTStartup(void) { return closesocket(answer); }
	`)
	if out, err := compiler.CombinedOutput(); err != nil {
		t.Skipf("%v\n%s", err, out)
	}
	return filepath.Join(dir, name)
}

// TestStrip: what is left of a library is what is loaded, byte by byte, and its time.
func TestStrip(t *testing.T) {
	dir := t.TempDir()
	file := library(t, dir, "some.dll")
	if err := os.WriteFile(filepath.Join(dir, windowsFolder, "other.tlb"), []byte("MSFT, as type libraries begin"),
		0o644); err != nil {
		t.Fatal(err)
	}
	before, err := pe.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	was, _ := os.Stat(file)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := stripWindows(root); err != nil {
		t.Fatal(err)
	}

	after, err := pe.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	is, _ := os.Stat(file)
	if is.Size() >= was.Size() || !is.ModTime().Equal(was.ModTime()) || after.PointerToSymbolTable != 0 {
		t.Errorf("it had %d bytes of %v, and has %d of %v", was.Size(), was.ModTime(), is.Size(), is.ModTime())
	}
	size := uint32(0)
	for i, s := range after.Sections {
		a, err1 := s.Data()
		b, err2 := before.Sections[i].Data()
		if err1 != nil || err2 != nil || strings.HasPrefix(s.Name, ".debug") ||
			s.SectionHeader != before.Sections[i].SectionHeader || !bytes.Equal(a, b) {
			t.Errorf("section %s: %v, %v, %+v", s.Name, err1, err2, s.SectionHeader)
		}
		size = max(size, s.VirtualAddress+s.VirtualSize)
	}
	if image := after.OptionalHeader.(*pe.OptionalHeader64).SizeOfImage; len(after.Sections) < 3 || image < size ||
		image >= size+4096 {
		t.Errorf("%d sections, an image of %d bytes whose sections end at %d", len(after.Sections), image, size)
	}
}

// TestCheckLinks: a library that cannot be loaded is named with what it needs.
func TestCheckLinks(t *testing.T) {
	dir := t.TempDir()
	library(t, dir, "some.dll")
	if err := checkLinks(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), "some.dll needs WS2_32.dll") {
		t.Errorf("without ws2_32.dll: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, windowsFolder, "ws2_32.dll"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkLinks(os.DirFS(dir)); err != nil {
		t.Error(err)
	}

	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "usr/lib/sh"), shell, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkLinks(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), "usr/lib/sh needs libc.so.6") {
		t.Errorf("without libc: %v", err)
	}
}
