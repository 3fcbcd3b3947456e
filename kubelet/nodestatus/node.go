package nodestatus

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/device"
)

// Node is this kubelet's node in the API. Make it with New. It is safe for concurrent use.
//
// Its life: Begin, then Register, then Announce, then Run. A kubelet without a cluster only calls Begin.
type Node struct {
	o     Options
	links Links

	// object is the node as the API last returned it; nil before Begin.
	object atomic.Pointer[v1.Node]
	// images are the images that the status lists; nil until they are known.
	images atomic.Pointer[[]v1.ContainerImage]
	// pressed holds the pressure conditions that are true; never nil.
	pressed atomic.Pointer[map[v1.NodeConditionType]bool]

	// due is when the next report must be sent even if nothing has changed. It carries the monotonic clock, so that a
	// change of the wall clock does not move it. Only Run uses it.
	due      time.Time
	rebooted sync.Once
}

// New returns a Node that does nothing yet.
func New(o Options, links Links) *Node {
	if o.Changed == nil {
		o.Changed = wakeup.New()
	}
	n := &Node{o: o, links: links}
	n.pressed.Store(&map[v1.NodeConditionType]bool{})
	return n
}

// Begin works out the node object as it is before the API knows it, so that pods can be admitted. The runtime's version
// and health must be known.
func (n *Node) Begin() { n.object.Store(n.newObject()) }

// Object returns the latest known node object, nil before Begin. The caller must not change it. Its UID is empty until
// the node is registered.
func (n *Node) Object() *v1.Node { return n.object.Load() }

// Addresses returns the addresses that the node has now.
func (n *Node) Addresses() []v1.NodeAddress {
	if obj := n.object.Load(); obj != nil {
		return obj.Status.Addresses
	}
	return nil
}

// Allocatable returns what pods can have of a node of which the API has obj; nil stands for a node that it does not
// have.
func (n *Node) Allocatable(obj *v1.Node) v1.ResourceList {
	var foreign v1.ResourceList
	if obj != nil {
		foreign = obj.Status.Capacity
	}
	return overlay(allocatable(machineCapacity(n.o, foreign), n.o.Reserved), n.devices().Allocatable)
}

// devices counts the devices of device plugins.
func (n *Node) devices() device.Amounts {
	if n.links.Devices == nil {
		return device.Amounts{}
	}
	return n.links.Devices()
}

// SetImages sets the images that the next report lists. It does not cause a report: nobody waits for them.
func (n *Node) SetImages(list []v1.ContainerImage) { n.images.Store(&list) }

// SetPressures sets the pressure conditions that are true, and reports them at once if they have changed. The caller
// must not change the map.
func (n *Node) SetPressures(conditions map[v1.NodeConditionType]bool) {
	if !maps.Equal(conditions, *n.pressed.Load()) {
		n.pressed.Store(&conditions)
		n.ReportSoon()
	}
}

// Pressures returns the pressure conditions that are true. The caller must not change the map.
func (n *Node) Pressures() map[v1.NodeConditionType]bool { return *n.pressed.Load() }

// ReportSoon makes Run work out the status at once. It does not block.
func (n *Node) ReportSoon() { n.o.Changed.Wake() }

// Announce sends the events of a kubelet that has just registered its node.
func (n *Node) Announce() {
	n.links.Event(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	for _, reason := range transitions(nil, n.object.Load().Status.Conditions) {
		n.event(reason)
	}
}

// Run keeps the node's status right until ctx ends: at once when something changes, and by the clock.
func (n *Node) Run(ctx context.Context) {
	cidr := ""
	n.links.API.WatchNode(ctx, func(obj *v1.Node) {
		n.seen(obj)
		if obj.Spec.PodCIDR != "" && obj.Spec.PodCIDR != cidr {
			cidr = obj.Spec.PodCIDR
			n.links.PodCIDR(cidr)
		}
	})

	loop.Loop{Wake: n.o.Changed, Period: n.o.StatusPeriod, Pass: func(ctx context.Context) error {
		err := n.report(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Reporting the node's status failed")
		}
		return err
	}}.Run(ctx)
}

// seen takes a version of the node from the watch.
func (n *Node) seen(obj *v1.Node) {
	before := n.object.Swap(obj)
	n.tellSeen(obj)
	if before == nil || before.UID != obj.UID || before.Spec.Unschedulable == obj.Spec.Unschedulable {
		return
	}
	if obj.Spec.Unschedulable {
		n.event("NodeNotSchedulable")
	} else {
		n.event("NodeSchedulable")
	}
}

func (n *Node) tellSeen(obj *v1.Node) {
	if n.links.Seen != nil {
		n.links.Seen(obj)
	}
}

// event records an event about a condition of the node, in upstream's words.
func (n *Node) event(reason string) {
	n.links.Event(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", n.o.Name, reason))
}
