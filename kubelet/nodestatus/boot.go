package nodestatus

import "porthole.dev/porthole/kubelet/runtime"

// Health returns the runtime's health h. While the pod network of this boot is not made, the network of the result is
// not ready.
func (n *Node) Health(h runtime.Health) runtime.Health {
	if n.o.NetworkAwaited == nil || !h.NetworkReady {
		return h
	}
	if why := n.o.NetworkAwaited(); why != "" {
		h.NetworkReady, h.NetworkMessage = false, why
	}
	return h
}
