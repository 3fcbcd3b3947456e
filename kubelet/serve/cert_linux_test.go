package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCertificateReplacedWhileRead: a certificate file that is replaced between the reading of the certificate and
// that of the key is read again by the next call. The key file is a pipe, so that the first call waits for the test
// between the two.
func TestCertificateReplacedWhileRead(t *testing.T) {
	dir := t.TempDir()
	cert, key, oldKey := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "old.key")
	next, nextKey := filepath.Join(dir, "next.crt"), filepath.Join(dir, "next.key")
	for _, files := range [][2]string{{cert, oldKey}, {next, nextKey}} {
		if err := selfSign(files[0], files[1], "node", nil); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Hour) // file times may be coarse; the new file is certainly newer
	if err := os.Chtimes(cert, past, past); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(key, 0o600); err != nil {
		t.Fatal(err)
	}

	c := &certificates{certFile: cert, keyFile: key}
	first := make(chan error, 1)
	go func() {
		_, err := c.get(nil)
		first <- err
	}()
	pipe, err := os.OpenFile(key, os.O_WRONLY, 0) // returns when the other end was opened, so the certificate was read
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, cert); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(oldKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Write(text); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	if err := <-first; err != nil {
		t.Fatal(err)
	}

	old := c.loaded.Certificate[0]
	if err := os.Rename(nextKey, key); err != nil {
		t.Fatal(err)
	}
	got, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got.Certificate[0], old) {
		t.Error("the replaced certificate is still served")
	}
}
