package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/internal/platform"
)

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
func (r *runner) networkOf(ctx context.Context, n *hcsd.Networking) (container.Network, error) {
	if n == nil || n.Namespace == "" {
		return container.Network{}, nil
	}
	id := strings.ToLower(n.Namespace)
	var all struct {
		Endpoints  []endpoint
		Namespaces []struct{ ID string }
		Netns      map[string]string
	}
	if err := control.Host(r.hostDir).Call(ctx, http.MethodGet, "/dump", nil, &all); err != nil {
		return container.Network{}, fmt.Errorf("asking HNS for the network of a container: %w", err)
	}
	known := false
	for _, ns := range all.Namespaces {
		known = known || strings.EqualFold(ns.ID, id)
	}
	if !known {
		return container.Network{}, hcsd.ErrElementNotFound.WithText("HCN namespace %s does not exist", id)
	}

	out := container.Network{Path: all.Netns[id]}
	if out.Path == "" {
		out.Path = platform.NetnsPath(kernel.OwnNetns(id))
	}
	for _, e := range all.Endpoints {
		if !strings.EqualFold(e.HostComputeNamespace, id) {
			continue
		}
		out.Servers = append(out.Servers, e.Dns.ServerList...)
		if e.Dns.Domain != "" {
			out.Searches = append(out.Searches, e.Dns.Domain)
		}
		out.Searches = append(out.Searches, e.Dns.Search...)
	}
	if n.DnsSearchList != "" {
		out.Searches = strings.Split(n.DnsSearchList, ",")
	}
	return out, nil
}
