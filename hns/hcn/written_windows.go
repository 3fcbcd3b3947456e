package hcn

import (
	"cmp"
	"sync"

	"porthole.dev/porthole/hns"
)

// writtenIDs remembers how HNS writes the ids of endpoints and networks, which documents and filters refer to. The
// zero value is ready. It is safe for concurrent use.
type writtenIDs struct {
	endpoints spelling

	mu       sync.Mutex
	networks map[hns.NetworkID]string
}

// ofNetwork is the name of the filter of endpoints by their network.
const ofNetwork = "VirtualNetwork"

// list asks HNS for the ids of objects of a kind. It remembers how HNS writes them and returns them as hns.NormalID
// does.
func (w *writtenIDs) list(o object, filter map[string]string) ([]string, error) {
	ids, err := o.ids(filter)
	if err != nil {
		return nil, err
	}
	switch {
	case o == networks:
		w.noteNetworks(ids...)
	case o == endpoints && filter[ofNetwork] != "":
		w.endpoints.only(ids)
	case o == endpoints:
		w.endpoints.note(ids...)
	}
	for i := range ids {
		ids[i] = hns.NormalID(ids[i])
	}
	return ids, nil
}

// filterOf returns the filter for the endpoints of a network. If this process has not seen how HNS writes the
// network's id, it lists all networks first.
func (w *writtenIDs) filterOf(network hns.NetworkID) (map[string]string, error) {
	written := w.network(network)
	if written == "" {
		if _, err := w.list(networks, nil); err != nil {
			return nil, err
		}
		written = cmp.Or(w.network(network), string(network))
	}
	return map[string]string{ofNetwork: written}, nil
}

// network returns the id of a network as HNS wrote it; "" if it did not.
func (w *writtenIDs) network(id hns.NetworkID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.networks[id]
}

// noteNetworks remembers how HNS writes the ids of networks.
func (w *writtenIDs) noteNetworks(written ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.networks == nil {
		w.networks = map[hns.NetworkID]string{}
	}
	for _, id := range written {
		w.networks[hns.NetworkID(hns.NormalID(id))] = id
	}
}

// endpointDoc writes the id of an endpoint's network as HNS does.
func (w *writtenIDs) endpointDoc(doc endpointDoc) endpointDoc {
	doc.HostComputeNetwork = cmp.Or(w.network(hns.NetworkID(doc.HostComputeNetwork)), doc.HostComputeNetwork)
	return doc
}

// balancerDoc returns the document of a load balancer with the ids of its endpoints as HNS writes them.
func (w *writtenIDs) balancerDoc(lb hns.LoadBalancer) balancerDoc {
	doc := loadBalancerTo(lb)
	for i, id := range doc.HostComputeEndpoints {
		doc.HostComputeEndpoints[i] = w.endpoints.of(id)
	}
	return doc
}

// membershipDoc is the request to add an endpoint to a namespace, or to remove it.
func (w *writtenIDs) membershipDoc(request string, endpoint hns.EndpointID) modificationDoc {
	return modificationDoc{ResourceType: "Endpoint", RequestType: request,
		Settings: membershipDoc{EndpointID: w.endpoints.of(string(endpoint))}}
}
