package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/internal/platform"
)

// network is what a container has of it.
type network struct {
	path              string // of the network namespace; "" for one of its own without a way out
	servers, searches []string
}

// endpoint is what is read of an endpoint of HNS.
type endpoint struct {
	HostComputeNamespace string
	Dns                  struct {
		Domain     string
		Search     []string
		ServerList []string
	}
}

// networkOf asks the host's HNS for the Linux network namespace of an HCN namespace, and for the DNS settings of its
// endpoints.
func (s *Service) networkOf(ctx context.Context, n *hcsd.Networking) (network, error) {
	if n == nil || n.Namespace == "" {
		return network{}, nil
	}
	id := strings.ToLower(n.Namespace)
	var all struct {
		Endpoints  []endpoint
		Namespaces []struct{ ID string }
		Netns      map[string]string
	}
	if err := control.Host(s.o.HostDir).Call(ctx, http.MethodGet, "/dump", nil, &all); err != nil {
		return network{}, fmt.Errorf("asking HNS for the network of a container: %w", err)
	}
	known := false
	for _, ns := range all.Namespaces {
		known = known || strings.EqualFold(ns.ID, id)
	}
	if !known {
		return network{}, hcsd.ErrElementNotFound.WithText("HCN namespace %s does not exist", id)
	}

	out := network{path: all.Netns[id]}
	if out.path == "" {
		out.path = platform.NetnsPath(dataplane.OwnNetns(id))
	}
	for _, e := range all.Endpoints {
		if !strings.EqualFold(e.HostComputeNamespace, id) {
			continue
		}
		out.servers = append(out.servers, e.Dns.ServerList...)
		if e.Dns.Domain != "" {
			out.searches = append(out.searches, e.Dns.Domain)
		}
		out.searches = append(out.searches, e.Dns.Search...)
	}
	if n.DnsSearchList != "" {
		out.searches = strings.Split(n.DnsSearchList, ",")
	}
	return out, nil
}

// resolvConf is the network's DNS for Linux' resolver, which Wine uses.
func (n network) resolvConf() string {
	var b strings.Builder
	for _, server := range n.servers {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(n.searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(n.searches, " "))
	}
	return b.String()
}
