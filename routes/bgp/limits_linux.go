package bgp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// passwordsImpossible returns why sessions cannot be protected by a password, or "": it tries to give a socket a key
// for TCP MD5 (RFC 2385), which a kernel may be built without.
func passwordsImpossible() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)

	key := unix.TCPMD5Sig{Addr: unix.SockaddrStorage{Family: unix.AF_INET}, Keylen: 1}
	key.Addr.Data[2] = 127
	key.Addr.Data[5] = 1
	key.Key[0] = 'x' // port, then the address 127.0.0.1
	if err := unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &key); err != nil {
		return fmt.Sprintf(
			"this kernel has no TCP MD5 (CONFIG_TCP_MD5SIG: %v): remove the password on both sides, and let a firewall accept port 179 from the peer only", err)
	}
	return ""
}

// defaultRouteImpossible returns why a default route cannot be learnt, or "".
func defaultRouteImpossible() string { return "" }
