package usage

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// Peer returns the process that listens at a unix socket (unix:///path); 0 if it is in another process namespace.
func Peer(endpoint string) (pid int, err error) {
	conn, err := net.DialTimeout("unix", strings.TrimPrefix(endpoint, "unix://"), time.Second)
	if err != nil {
		return 0, fmt.Errorf("finding who listens at %s: %w", endpoint, err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("finding who listens at %s: %w", endpoint, err)
	}

	var who *syscall.Ucred
	failed := raw.Control(func(fd uintptr) {
		who, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if failed != nil || err != nil {
		return 0, fmt.Errorf("finding who listens at %s: %v %w", endpoint, failed, err)
	}
	return int(who.Pid), nil
}
