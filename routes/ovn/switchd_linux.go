package ovn

import (
	"errors"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/ovsdb"
)

// switchd checks whether ovs-vswitchd runs. The database does not show that: its rows stay when the program ends.
// ovs-vswitchd listens on a Unix socket BRIDGE.mgmt for each bridge (ovs-vswitchd(8)). The socket is expected in the
// folder of the database's socket; ovs-vswitchd has it elsewhere if it was started with another run folder.
type switchd struct {
	socket string // path; "" if the database is not reached by a Unix socket, and nothing can be checked
	found  bool   // a connection to socket succeeded before, so that the path is right
}

func newSwitchd(database string) *switchd {
	network, path, err := ovsdb.Parse(database)
	if err != nil || network != "unix" {
		return &switchd{}
	}
	return &switchd{socket: filepath.Join(filepath.Dir(path), integration+".mgmt")}
}

// hello is the message OFPT_HELLO of OpenFlow 1.5, the version that ovn-controller uses. ovs-vswitchd logs a warning
// about a connection that is closed before both sides have sent one.
var hello = []byte{6, 0, 0, 8, 0, 0, 0, 1}

// helloWait bounds the connection attempt, and then the exchange of hello. No answer within it is no sign that
// ovs-vswitchd has ended: it may be busy.
const helloWait = time.Second

// away returns why ovs-vswitchd seems not to run: nobody accepts connections at its socket, or the socket was deleted.
// It returns "" if ovs-vswitchd runs or if that is not known. It may block for twice helloWait.
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

// greet exchanges hello and closes the connection. Errors do not matter: that it was accepted shows that ovs-vswitchd
// runs.
func greet(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(helloWait))
	if _, err := conn.Write(hello); err == nil {
		_, _ = conn.Read(make([]byte, 64)) // the answer, of 16 bytes
	}
}
