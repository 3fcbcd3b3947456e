package vxlan

import "golang.org/x/sys/windows"

// ipDontFragment is IP_DONTFRAGMENT of ws2ipdef.h.
const ipDontFragment = 14

// dontFragment makes packets of a socket leave whole or not at all.
func dontFragment(fd uintptr) error {
	return windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_IP, ipDontFragment, 1)
}
