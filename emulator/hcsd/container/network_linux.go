package container

import (
	"fmt"
	"strings"
)

// Network is what a container has of it.
type Network struct {
	Path              string // of the network namespace; "" for one of its own without a way out
	Servers, Searches []string
}

// resolvConf is the network's DNS for Linux' resolver, which Wine uses.
func (n Network) resolvConf() string {
	var b strings.Builder
	for _, server := range n.Servers {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(n.Searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(n.Searches, " "))
	}
	return b.String()
}
