package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
)

// Pod is a network namespace with an address of its host's or node's range.
type Pod struct {
	Place
	// Endpoint and Namespace are the ids of its HNS objects; "" on a Node.
	Endpoint, Namespace string
	host                *Host
}

// PodMaker is a Host or a Node.
type PodMaker interface {
	Pod(ctx context.Context, name string, addr netip.Addr) (*Pod, error)
}

// Pod makes a pod on the host; its endpoint has the policies that win-bridge gives it. A zero address is the next free
// one, from .10 on.
func (h *Host) Pod(ctx context.Context, name string, addr netip.Addr) (*Pod, error) {
	h.mu.Lock()
	number := h.pods
	h.pods++
	h.mu.Unlock()
	if !addr.IsValid() {
		addr = nth(h.Pods, 10+number)
	}
	p := &Pod{Place: Place{Name: name, Addr: addr}, host: h}
	if h.o.IPv6 {
		p.Addr6 = nth(h.Pods6, 10+number)
	}

	var err error
	if p.Netns, err = h.lab.newNetns(h.Name + "-" + name); err != nil {
		return nil, err
	}
	var bound struct{ ID string }
	if err := h.HNS.Control(ctx, "POST", "/netns", object{"path": p.Netns}, &bound); err != nil {
		return nil, fmt.Errorf("making pod %s: %w", name, err)
	}
	p.Namespace = bound.ID

	if p.Endpoint, err = h.HNS.Create(ctx, Endpoint, h.NetworkID, h.podEndpoint(p)); err != nil {
		return nil, fmt.Errorf("making the endpoint of pod %s: %w", name, err)
	}
	if err := h.attach(ctx, p.Namespace, p.Endpoint); err != nil {
		return nil, fmt.Errorf("attaching pod %s: %w", name, err)
	}

	return p, nil
}

// podEndpoint is the document of a pod's endpoint.
func (h *Host) podEndpoint(p *Pod) object {
	policy := func(kind string, settings object) object { return object{"Type": kind, "Settings": settings} }
	exceptions := []string{PodRange.String(), ServiceRange.String(), Underlay.String()}
	own := []string{p.Addr.String()}
	served := []string{ServiceRange.String(), h.Addr.String() + "/32"}
	if p.Addr6.IsValid() {
		exceptions = append(exceptions, PodRange6.String(), ServiceRange6.String(), Underlay6.String())
		own = append(own, p.Addr6.String())
		served = append(served, ServiceRange6.String(), h.Addr6.String()+"/128")
	}

	policies := []object{policy("OutBoundNAT", object{"Exceptions": exceptions}),
		policy("OutBoundNAT", object{"Destinations": own})}
	for _, to := range served {
		policies = append(policies, policy("SDNRoute", object{"DestinationPrefix": to, "NeedEncap": true}))
	}
	next := h.hostAddr()
	if h.o.NetworkType == "Overlay" {
		next = h.gateway()
		policies = append(policies, policy("ProviderAddress", object{"ProviderAddress": h.Addr.String()}))
	}

	addrs, routes := []object{configured(p.Addr, h.Pods)}, []object{defaultRoute(next)}
	if p.Addr6.IsValid() {
		addrs = append(addrs, configured(p.Addr6, h.Pods6))
		routes = append(routes, defaultRoute(nth(h.Pods6, 2)))
	}

	return object{"Name": p.Name + "_" + NetworkName, "HostComputeNetwork": h.NetworkID, "IpConfigurations": addrs,
		"Policies": policies, "Routes": routes, "SchemaVersion": schema}
}

// Remove ends the pod's network, as the end of a pod does. Servers and connections in it are the caller's.
func (p *Pod) Remove(ctx context.Context) error {
	if p.host == nil {
		return nil
	}
	if err := p.host.HNS.Delete(ctx, Endpoint, p.Endpoint); err != nil {
		return err
	}
	return p.host.HNS.Control(ctx, "DELETE", "/netns/"+p.Namespace, nil, nil)
}

// Node is a Linux node; what runs on it is the caller's.
type Node struct {
	Place
	// Pods and Pods6 are the ranges of its pods.
	Pods, Pods6 netip.Prefix
	// API is its way to the API server.
	API  *API
	lab  *Lab
	pods int
}

// podBridge is the bridge of a Node's pods.
const podBridge = "pods0"

// AddNode makes a Linux node with a bridge for its pods, and its Node object.
func (l *Lab) AddNode(ctx context.Context, name string) (*Node, error) {
	m, err := l.join(name)
	if err != nil {
		return nil, err
	}
	n := &Node{Place: Place{Name: name, Netns: m.netns, Addr: m.addr, Addr6: m.addr6}, Pods: m.pods, Pods6: m.pods6,
		lab: l}
	err = platform.InNetns(m.netns, func() error {
		if err := platform.CreateBridge(podBridge); err != nil {
			return err
		}
		return addresses(podBridge, netip.PrefixFrom(nth(m.pods, 1), m.pods.Bits()),
			netip.PrefixFrom(nth(m.pods6, 1), m.pods6.Bits()))
	})
	if err == nil && !l.o.NoAPI {
		n.API, err = l.newAPI(uint16(7000+m.number), "")
	}
	if err == nil && !l.o.NoAPI {
		err = l.register(ctx, n.Place, "linux", n.Pods, n.Pods6)
	}
	if err != nil {
		return nil, fmt.Errorf("making node %s: %w", name, err)
	}
	return n, nil
}

// Pod makes a pod of the node. A zero address is the next free one, from .10 on.
func (n *Node) Pod(_ context.Context, name string, addr netip.Addr) (*Pod, error) {
	number := n.pods
	n.pods++
	if !addr.IsValid() {
		addr = nth(n.Pods, 10+number)
	}
	p := &Pod{Place: Place{Name: name, Addr: addr, Addr6: nth(n.Pods6, 10+number)}}
	var err error
	if p.Netns, err = n.lab.newNetns(n.Name + "-" + name); err != nil {
		return nil, err
	}

	if err := n.link(p, fmt.Sprintf("p%d", number)); err != nil {
		return nil, fmt.Errorf("making pod %s: %w", name, err)
	}
	return p, nil
}

// link joins a pod to the bridge, at a port of that name, and gives it its addresses and the way out.
func (n *Node) link(p *Pod, port string) error {
	if err := veth(n.Netns, port, p.Netns, "eth0"); err != nil {
		return err
	}
	err := platform.InNetns(n.Netns, func() error {
		if err := platform.JoinBridge(port, podBridge); err != nil {
			return err
		}
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.LinkSetHairpin(link, true)
	})
	if err != nil {
		return err
	}
	return platform.InNetns(p.Netns, func() error {
		return errors.Join(
			addresses("eth0", netip.PrefixFrom(p.Addr, n.Pods.Bits()), netip.PrefixFrom(p.Addr6, n.Pods6.Bits())),
			defaultRoutes(nth(n.Pods, 1), nth(n.Pods6, 1)))
	})
}
