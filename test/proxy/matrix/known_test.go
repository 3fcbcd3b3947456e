package matrix

import (
	"slices"
	"strings"
)

// The differences between the nodes that are expected, each with its reason. The first that fits explains a difference;
// one that explains nothing fails the test.

func l2bridgeKnown() []known {
	list := []known{{
		reason: "HNS has one list of backends per frontend: where the node has backends of its own, a policy Local meant for the outside holds for its own clients too; Linux gives them all backends",
		fits: func(d difference) bool {
			return externalLocal(d.entry) && external(d.kind) && d.client != fromOutside &&
				len(d.windows.backends) > 0 && !slices.ContainsFunc(d.windows.backends, isRemote)
		},
	}, {
		reason: "an HNS load balancer has one port for all its backends; where pods listen on others a relay on the node carries it, and backends see the node",
		fits: func(d difference) bool {
			return strings.HasPrefix(d.entry, "target-ports-differ") && d.source &&
				slices.Equal(d.windows.sources, []string{"node"})
		},
	}, {
		reason: "a node port has one frontend for all clients: where a policy Local leaves it no backend for the outside, it serves nobody",
		fits: func(d difference) bool {
			return externalLocal(d.entry) && d.kind == nodePort && d.client != fromOutside &&
				len(d.windows.backends) == 0
		},
	}}

	return append(list, known{
		reason: "HNS cannot filter by source, so the load balancer's address of a service with source ranges is refused, and an event says so",
		fits: func(d difference) bool {
			return d.entry == "source-ranges-with-client" && d.kind == ingressIP && len(d.windows.backends) == 0
		},
	}, known{
		reason: "a pod in the host's own network has no HNS endpoint, and a load balancer has endpoints as backends",
		fits: func(d difference) bool {
			return d.entry == "backend-is-this-node" && len(d.windows.backends) == 0
		},
	})
}

// overlayKnown is what differs on an overlay network: as on L2Bridge, and what passes the host's network card twice.
func overlayKnown() []known {
	return append(l2bridgeKnown(), known{
		reason: "clients and backends outside the overlay: the packets pass the host's network card in and out, on which nobody has switched forwarding on",
		fits: func(d difference) bool {
			return slices.Contains([]string{"backend-is-other-node", "backend-is-outside", "backends-of-all-sorts"},
				d.entry) && d.client == fromOutside
		},
	})
}

func withoutDSR() []known {
	return []known{{
		reason: "without direct server return the host's stack carries the packets, and backends see the node",
		fits: func(d difference) bool {
			return d.source && d.kind == clusterIP && d.client != fromNode &&
				slices.Equal(d.windows.sources, []string{"node"})
		},
	}, {
		reason: "without direct server return a pod meets only those load balancers for clients of the node to which its SDN routes lead, and they lead to the service range",
		fits: func(d difference) bool {
			return externalLocal(d.entry) && (d.kind == externalIP || d.kind == ingressIP) && d.client == fromPod &&
				len(d.windows.backends) == 0 &&
				!slices.ContainsFunc(d.linux.backends, func(b string) bool { return !isRemote(b) })
		},
	}}
}

// externalLocal reports whether the external traffic policy of the entry is Local.
func externalLocal(entry string) bool {
	return strings.Contains(entry, "-ext-local-") || entry == "hints-and-local-policies" || entry == "affinity-local"
}

func external(kind string) bool { return kind == externalIP || kind == ingressIP || kind == nodePort }

func isRemote(backend string) bool { return !strings.HasPrefix(backend, "l") }
