// Package expected works out what HNS of a host must hold for the services and slices of a cluster, by the rules of
// Kubernetes and none of a proxy's.
package expected

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Diff lists how HNS differs from what the services and slices that the host sees imply: each frontend has one load
// balancer with the right backends; its source address is that of an endpoint or of the host; nothing else has a load
// balancer; and no remote endpoint is there twice or for nothing. Load balancers for clients in the cluster may be
// there besides, with all backends: see inCluster. Frontends whose backends have different ports are compared by
// address. foreign are the ids of HNS objects that are not the proxy's: they must be there, and are ignored otherwise.
func (h Host) Diff(services []corev1.Service, list []discoveryv1.EndpointSlice, have HNS, foreign []string) []string {
	want, optional := h.of(services, list)
	v := newView(h, have.Endpoints, foreign)
	found := v.frontends(have.LoadBalancers)
	for key, backends := range want {
		switch got, ok := found[key]; {
		case !ok:
			v.note("%s is missing (%s)", key, backends)
		case got != backends:
			v.note("%s has %s instead of %s", key, got, backends)
		}
	}
	for key, backends := range found {
		if _, ok := want[key]; !ok && optional[key] != backends {
			v.note("%s (%s) is there and nobody wants it", key, backends)
		}
	}

	v.endpoints(have.Endpoints, want)
	for id := range v.foreign {
		v.note("foreign object %s is gone", id)
	}
	slices.Sort(v.diff)
	return v.diff
}
