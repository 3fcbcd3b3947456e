package preflight

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// marks are annotations that a network leaves at the nodes which it serves.
var marks = []struct{ prefix, kind string }{
	{"flannel.alpha.coreos.com/backend-type", "flannel"},
	{"projectcalico.org/IPv4Address", "Calico"},
	{"io.cilium.", "Cilium"},
	{"node.antrea.io/mac-address", "Antrea"},
	{"k8s.ovn.org/", "OVN-Kubernetes"},
}

// NetworkOf tells, by what other nodes have, which network a cluster has; "" if no node says so. remote are the nodes
// that are in none of the links, with their address.
func NetworkOf(nodes []v1.Node, self string, links []netip.Prefix) (kind string, remote []string) {
	for _, n := range nodes {
		if n.Name == self {
			continue
		}
		if found := networkOf(n.Annotations); found != "" && kind == "" && !hasRoutes(&n) {
			kind = found
		}
		for _, a := range n.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if a.Type != v1.NodeInternalIP || err != nil || !ip.Is4() {
				continue
			}
			if !slices.ContainsFunc(links, func(p netip.Prefix) bool { return p.Contains(ip) }) {
				remote = append(remote, n.Name+" ("+a.Address+")")
			}
		}
	}
	return kind, remote
}

// hasRoutes reports whether porthole-routes keeps a node's network. In the mode vxlan such a node has flannel's
// annotations.
func hasRoutes(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeNetworkUnavailable && c.Reason == "RoutesReady"
	})
}

func networkOf(annotations map[string]string) string {
	for _, m := range marks {
		for key, value := range annotations {
			if !strings.HasPrefix(key, m.prefix) {
				continue
			}
			if m.kind == "flannel" {
				return "flannel " + strings.ToLower(value)
			}
			return m.kind
		}
	}
	return ""
}

// IsReady reports whether a node's condition Ready is true.
func IsReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}
