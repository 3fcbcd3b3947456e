package usage

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestPeer: the process behind a socket is found.
func TestPeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if pid, err := Peer("unix://" + path); err != nil || pid != os.Getpid() {
		t.Errorf("%d %v, want %d", pid, err, os.Getpid())
	}
	if _, err := Peer("unix://" + path + "x"); err == nil {
		t.Error("nobody listens there")
	}
}
