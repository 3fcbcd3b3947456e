package routes

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/routes/table"
)

// clusterClient is the API server, for one node's agent.
type clusterClient struct {
	client kube.Interface
	node   string // this node's name
	nodes  *kube.Nodes
	*kube.NodeEvents
}

func (c clusterClient) List() ([]*corev1.Node, bool) { return c.nodes.List() }

func (c clusterClient) SetCondition(ctx context.Context, condition corev1.NodeCondition) error {
	return kube.SetNodeCondition(ctx, c.client, c.node, condition)
}

func (c clusterClient) Pod(ctx context.Context, namespace, name string) (string, map[string]string, error) {
	return kube.PodAnnotations(ctx, c.client, namespace, name)
}

func (c clusterClient) Annotate(ctx context.Context, annotations map[string]string) error {
	return kube.AnnotateNode(ctx, c.client, c.node, annotations)
}

// tableOf converts the nodes; ok is false until they are known completely.
func tableOf(nodes []*corev1.Node, ok bool) ([]table.Node, bool) {
	if !ok {
		return nil, false
	}
	list := make([]table.Node, len(nodes))
	for i, n := range nodes {
		list[i] = toTable(n)
	}
	return list, true
}

// toTable converts a node. Its address is the first internal one of the family of its first pod range; if that is IPv4, Addr6 is the first
// internal one of IPv6. Ranges and addresses that do not parse are left out, as if they were not assigned yet.
func toTable(n *corev1.Node) table.Node {
	t := table.Node{Name: n.Name, Annotations: n.Annotations}
	ranges := n.Spec.PodCIDRs
	if len(ranges) == 0 && n.Spec.PodCIDR != "" {
		ranges = []string{n.Spec.PodCIDR}
	}
	for _, text := range ranges {
		if p, err := netip.ParsePrefix(text); err == nil {
			t.PodCIDRs = append(t.PodCIDRs, p.Masked())
		}
	}

	for _, a := range n.Status.Addresses {
		addr, err := netip.ParseAddr(a.Address)
		if err != nil || a.Type != corev1.NodeInternalIP {
			continue
		}
		switch addr = addr.Unmap(); {
		case !t.Addr.IsValid() && (len(t.PodCIDRs) == 0 || t.PodCIDRs[0].Addr().Is4() == addr.Is4()):
			t.Addr = addr
		case addr.Is6() && !t.Addr6.IsValid():
			t.Addr6 = addr
		}
	}
	if t.Addr.Is6() {
		t.Addr6 = netip.Addr{}
	}
	return t
}

// onLink returns the prefixes of the interface that has the address.
func onLink(addr netip.Addr) ([]netip.Prefix, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}

	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}

		var prefixes []netip.Prefix
		found := false
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			found = found || p.Addr().Unmap() == addr
			if !p.Addr().IsLinkLocalUnicast() {
				prefixes = append(prefixes, p.Masked())
			}
		}
		if found {
			return prefixes, nil
		}
	}
	return nil, fmt.Errorf("no interface of this host has the node's address %s", addr)
}
