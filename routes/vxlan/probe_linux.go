package vxlan

import "golang.org/x/sys/unix"

// dontFragment makes packets of a socket leave whole or not at all, whatever was learnt of the path.
func dontFragment(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
}
