package storage

import (
	"sync"

	v1 "k8s.io/api/core/v1"
)

// nodeView is what the API says of the volumes of this node. It is safe for concurrent use.
type nodeView struct {
	mu              sync.Mutex
	attached, inUse map[v1.UniqueVolumeName]bool
	changed         chan struct{} // closed at a change, and then replaced
}

// observe takes a version of the node.
func (n *nodeView) observe(node *v1.Node) {
	attached := map[v1.UniqueVolumeName]bool{}
	inUse := map[v1.UniqueVolumeName]bool{}
	for _, a := range node.Status.VolumesAttached {
		attached[a.Name] = true
	}
	for _, name := range node.Status.VolumesInUse {
		inUse[name] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attached, n.inUse = attached, inUse
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// of returns what is known of one volume, and what is closed when there may be news.
func (n *nodeView) of(name v1.UniqueVolumeName) (attached, inUse bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.attached[name], n.inUse[name], n.changed
}
