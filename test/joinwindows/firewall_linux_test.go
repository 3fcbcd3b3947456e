package joinwindows

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// walled is a host whose inbound firewall is on.
type walled struct{ *host }

// foreign adds a firewall rule that is not Porthole's, and waits until a connection to its port works. That can take
// seconds: an earlier test's host had the same IP address, and the Linux node still sends to that host's MAC address.
func (h walled) foreign() {
	h.t.Helper()
	if out, code := h.exe("netsh", "advfirewall", "firewall", "add", "rule", "name=of somebody else", "dir=in",
		"action=allow", "protocol=TCP", "localport=9182"); code != 0 {
		h.t.Fatalf("netsh: exit code %d: %s", code, out)
	}
	wait.True(h.t, shortly, "port 9182 of the host to be open", func() bool { return h.lets(9182) })
}

// rules are the rules of the host's firewall, as its registry has them.
func (h walled) rules() string {
	h.t.Helper()
	out, _ := h.exe("reg", "query",
		`HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`)
	return out
}

// lets reports whether the host's firewall lets a connection from the Linux node to a port in, be there a program or
// not.
func (h walled) lets(port int) bool {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Second)
	defer cancel()
	ip := strings.Fields(h.inside("hostname", "-I"))
	if len(ip) == 0 {
		h.t.Fatal("the host has no address")
	}
	c, err := testkit.DialIn(platform.NetnsPath("porthole-lin01"))(ctx, "tcp",
		net.JoinHostPort(ip[0], strconv.Itoa(port)))
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, unix.ECONNREFUSED)
}

// opens: the ports of a node, and no other, are let in while it is one.
func (h walled) opens(node bool, when string) {
	h.t.Helper()
	for port, want := range map[int]bool{10250: node, 10256: node, 10248: false, 9182: true} {
		if got := h.lets(port); got != want {
			h.t.Errorf("%s the firewall lets port %d in: %t, want %t", when, port, got, want)
		}
	}
}
