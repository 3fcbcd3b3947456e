package nodestatus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/kubelet/runtime"
)

// Health returns the runtime's health h. If the pod network was last right in an earlier boot, the network of the result is not ready.
func (n *Node) Health(h runtime.Health) runtime.Health {
	if why := n.earlierNetwork(n.object.Load()); why != "" && h.NetworkReady {
		h.NetworkReady, h.NetworkMessage = false, why
	}
	return h
}

// store keeps a newer version of the node, and returns the one before, which may be nil.
func (n *Node) store(obj *v1.Node) (before *v1.Node) {
	before = n.object.Swap(obj)
	if n.earlierNetwork(before) != "" && n.earlierNetwork(obj) == "" {
		n.ReportSoon()
		n.links.NetworkMade()
	}
	return before
}

// earlierNetwork returns why the pod network is not that of this boot; empty if it is, or if nobody says. obj may be nil.
func (n *Node) earlierNetwork(obj *v1.Node) string {
	if obj == nil || n.o.Host.BootID == "" {
		return ""
	}
	boot := obj.Annotations[nodeapi.NetworkBoot]
	if boot == "" || boot == n.o.Host.BootID {
		return ""
	}
	return fmt.Sprintf("porthole routes has not made the pod network in this boot (%s) yet, only in boot %s; if another program makes it now, remove the annotation %s of the node",
		n.o.Host.BootID, boot, nodeapi.NetworkBoot)
}
