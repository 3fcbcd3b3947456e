package networkapi

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/internal/wakeup"
)

// toBeDeleted is the taint by which the cluster autoscaler announces that it removes a node.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// OwnNode follows the node that a program runs on.
type OwnNode struct {
	state   atomic.Pointer[ownNode]
	changed wakeup.Signal

	listed     <-chan struct{} // closed when the API was asked for the node
	programmed wakeup.Signal
}

type ownNode struct {
	eligible  bool
	addresses []string
	internal  []netip.Addr
	// programmer is the program that programs services on this node instead of a service proxy; "": none.
	programmer string
}

// WatchOwnNode starts following a node and returns at once; it ends with ctx.
func WatchOwnNode(ctx context.Context, client *Client, name string) (*OwnNode, error) {
	own := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	lw := listWatch(own, client.Nodes)
	n := &OwnNode{changed: wakeup.New(), programmed: wakeup.New()}
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), &corev1.Node{}, 0)
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.set(obj, name) },
		UpdateFunc: func(_, obj any) { n.set(obj, name) },
		DeleteFunc: func(any) { n.state.Store(&ownNode{internal: n.InternalIPs()}) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching node %s: %w", name, err)
	}
	n.listed = handler.HasSyncedChecker().Done()
	go informer.RunWithContext(ctx)
	return n, nil
}

// set takes in a version of the node. A node that has no internal address for a moment keeps the last ones: a proxy
// that lost them would stop serving node ports.
func (n *OwnNode) set(obj any, name string) {
	node, ok := obj.(*corev1.Node)
	if !ok || node.Name != name {
		return
	}

	s := &ownNode{eligible: node.DeletionTimestamp.IsZero(), programmer: node.Annotations[nodeapi.ServiceProgrammer]}
	for _, t := range node.Spec.Taints {
		s.eligible = s.eligible && t.Key != toBeDeleted
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			s.addresses = append(s.addresses, a.Address)
		}
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			s.internal = append(s.internal, addr.Unmap())
		}
	}

	old, other := n.InternalIPs(), n.Programmer()
	if len(s.internal) == 0 {
		s.internal = old
	}
	n.state.Store(s)
	if !slices.Equal(old, s.internal) {
		n.changed.Wake()
	}
	if other != s.programmer {
		n.programmed.Wake()
	}
}

// Listed is closed once the API has told whether the node exists and what it is. Until then nothing is known about it.
func (n *OwnNode) Listed() <-chan struct{} { return n.listed }

// Programmer returns the program that programs the services on this node instead of a service proxy; "" if there is
// none, or while nothing is known about the node.
func (n *OwnNode) Programmer() string {
	if s := n.state.Load(); s != nil {
		return s.programmer
	}
	return ""
}

// Programmed receives when Programmer changed. It is for one reader.
func (n *OwnNode) Programmed() <-chan struct{} { return n.programmed }

// Eligible reports whether the node may have traffic from outside: it exists, is not being deleted, and the cluster
// autoscaler is not about to remove it. It returns true while the node has not been read yet.
func (n *OwnNode) Eligible() bool {
	s := n.state.Load()
	return s == nil || s.eligible
}

// Changed receives when InternalIPs changed. It is for one reader.
func (n *OwnNode) Changed() <-chan struct{} { return n.changed }

// InternalIPs returns the node's own addresses, in the order of the API; none while they are not known. A node that is
// deleted, or that lists none, keeps the last ones: this host still has them.
func (n *OwnNode) InternalIPs() []netip.Addr {
	if s := n.state.Load(); s != nil {
		return s.internal
	}
	return nil
}

// Addresses returns the node's internal and external addresses in the order of the API; none while they are not known.
func (n *OwnNode) Addresses() []string {
	if s := n.state.Load(); s != nil {
		return s.addresses
	}
	return nil
}
