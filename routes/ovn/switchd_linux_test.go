package ovn

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSwitchdSocket: a socket at which nobody listens is told from one that is not where ours is looked for.
func TestSwitchdSocket(t *testing.T) {
	dir := t.TempDir()
	s := newSwitchd("unix:" + filepath.Join(dir, "db.sock"))
	if got := s.away(); got != "" {
		t.Errorf("without a socket nothing is known: %q", got)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "br-int.mgmt"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	greeted := make(chan []byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(hello)
		data, _ := io.ReadAll(conn)
		greeted <- data
	}()
	if got := s.away(); got != "" {
		t.Errorf("while somebody listens: %q", got)
	}
	if data := <-greeted; !bytes.Equal(data, hello) {
		t.Errorf("greeted with %x", data)
	}

	listener.Close()
	if got := s.away(); !strings.Contains(got, "nobody listens at "+dir) {
		t.Errorf("after a crash: %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "br-int.mgmt")); err != nil {
		t.Fatal(err)
	}
	if got := s.away(); !strings.Contains(got, "nobody listens") {
		t.Errorf("after an orderly end: %q", got)
	}
	if got := newSwitchd("tcp:127.0.0.1:6640").away(); got != "" {
		t.Errorf("a database elsewhere: %q", got)
	}
}
