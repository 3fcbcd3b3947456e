package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestGzip: a release is compressed by a program, from a file that is removed, to the same bytes each time.
func TestGzip(t *testing.T) {
	if _, err := exec.LookPath(packer); err != nil {
		t.Skip(err)
	}
	r, text := release{level: gzip.BestCompression, out: t.TempDir()}, strings.Repeat("the same ", 10000)
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
	var packed [2]bytes.Buffer
	for i := range packed {
		if err := r.gzip(&packed[i], write); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packed[0].Bytes(), packed[1].Bytes()) {
		t.Errorf("%x, then %x", packed[0].Bytes(), packed[1].Bytes())
	}
	unzipped, err := gzip.NewReader(&packed[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(unzipped); string(got) != text || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}

	if err := r.gzip(io.Discard, func(io.Writer) error { return io.ErrClosedPipe }); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an error of the writer is %v", err)
	}
	left, err := os.ReadDir(r.out)
	if err != nil || len(left) > 0 {
		t.Errorf("left is %v, %v", left, err)
	}
}

// TestGzipWithoutProgram: the error says what installs it.
func TestGzipWithoutProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := release{level: gzip.BestCompression, out: t.TempDir()}
	err := r.gzip(io.Discard, func(io.Writer) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "tools/deps") {
		t.Errorf("error %v", err)
	}
}
