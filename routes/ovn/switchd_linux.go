package ovn

import (
	"errors"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/ovsdb"
)

// switchd looks whether ovs-vswitchd runs. The database does not say: what it has of the switch stays when that ends. The program listens
// at a socket BRIDGE.mgmt for each bridge (ovs-vswitchd(8)), beside that of the database unless its run folder is another one.
type switchd struct {
	socket string // "": not known
	found  bool   // it listened there before
}

func newSwitchd(database string) *switchd {
	network, path, err := ovsdb.Parse(database)
	if err != nil || network != "unix" {
		return &switchd{}
	}
	return &switchd{socket: filepath.Join(filepath.Dir(path), integration+".mgmt")}
}

// hello is the first message of OpenFlow in version 1.5, which ovn-controller speaks too. ovs-vswitchd logs a warning about a peer that ends
// without having sent and read one.
var hello = []byte{6, 0, 0, 8, 0, 0, 0, 1}

// helloWait bounds the exchange. That ovs-vswitchd does not answer in time shows nothing: it may be busy.
const helloWait = time.Second

// away returns what shows that ovs-vswitchd does not run; "" if it runs or nothing tells.
func (s *switchd) away() string {
	if s.socket == "" {
		return ""
	}
	conn, err := net.DialTimeout("unix", s.socket, helloWait)
	switch {
	case err == nil:
		s.found = true
		greet(conn)
		return ""
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT) && s.found:
		return "nobody listens at " + s.socket
	}
	return ""
}

// greet exchanges greetings, and ends the connection.
func greet(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(helloWait))
	if _, err := conn.Write(hello); err == nil {
		conn.Read(make([]byte, 64)) // theirs; it has 16 bytes
	}
}
