package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// hostName asks for the name of the host, which the test gave it, in every way that programs have. Its addresses are
// the host's own.
func hostName() error {
	const want, netbios = "node-with-a-long-name", "NODE-WITH-A-LON"
	name, err := os.Hostname()
	if err != nil || name != want {
		return fmt.Errorf("os.Hostname says %q, %v", name, err)
	}
	if got := os.Getenv("COMPUTERNAME"); got != netbios {
		return fmt.Errorf("%%COMPUTERNAME%% is %q", got)
	}
	if out, err := exec.Command("hostname").Output(); err != nil ||
		!strings.EqualFold(strings.TrimSpace(string(out)), want) {
		return fmt.Errorf("hostname says %q, %v", out, err)
	}

	ws2 := windows.NewLazySystemDLL("ws2_32.dll")
	wide := make([]uint16, 64)
	if r, _, err := ws2.NewProc("GetHostNameW").Call(uintptr(unsafe.Pointer(&wide[0])), uintptr(len(wide))); r != 0 ||
		windows.UTF16ToString(wide) != want {
		return fmt.Errorf("GetHostNameW says %q, %v", windows.UTF16ToString(wide), err)
	}
	if r, _, err := ws2.NewProc("GetHostNameW").Call(uintptr(unsafe.Pointer(&wide[0])), uintptr(len(want))); r == 0 ||
		err != windows.WSAEFAULT {
		return fmt.Errorf("GetHostNameW into too small a buffer: %d, %v", r, err)
	}
	return ownAddresses(want)
}

// ownAddresses resolves the name, in other letters too, and expects an address on which the host can listen.
func ownAddresses(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, spelled := range []string{name, strings.ToUpper(name)} {
		found, err := net.DefaultResolver.LookupHost(ctx, spelled)
		if err != nil || len(found) == 0 {
			return fmt.Errorf("%s resolves to %v, %v", spelled, found, err)
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(found[0], "0")); err != nil {
			return fmt.Errorf("%s resolves to %v: %v", spelled, found, err)
		} else {
			l.Close()
		}
	}

	entry, err := windows.GetHostByName(name)
	if err != nil {
		return fmt.Errorf("gethostbyname: %v", err)
	}
	if got := windows.BytePtrToString(entry.Name); got != name {
		return fmt.Errorf("gethostbyname says that %s is called %q", name, got)
	}
	return nil
}
