package routes

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/vxlan"
)

// clusterClient is the API server, for one node's agent.
type clusterClient struct {
	client *networkapi.Client
	node   string // this node's name
	nodes  *networkapi.Nodes[table.Node]
	// readOnly: the node is something else's, which says itself whether its network is there.
	readOnly bool
	*networkapi.NodeEvents
}

func (c clusterClient) List() ([]table.Node, bool) { return c.nodes.List() }

func (c clusterClient) Self() *corev1.Node { return c.nodes.Own() }

func (c clusterClient) SetCondition(ctx context.Context, condition corev1.NodeCondition) error {
	if c.readOnly {
		return nil
	}
	return networkapi.SetNodeCondition(ctx, c.client, c.node, condition)
}

func (c clusterClient) Pod(ctx context.Context, namespace, name string) (string, map[string]string, error) {
	return networkapi.PodAnnotations(ctx, c.client, namespace, name)
}

func (c clusterClient) Annotate(ctx context.Context, annotations map[string]string) error {
	if c.readOnly {
		return nil
	}
	return networkapi.AnnotateNode(ctx, c.client, c.node, annotations)
}

// FollowPods returns the pods of this node, which nobody follows before Run.
func (c clusterClient) FollowPods(changed func()) podList {
	return networkapi.NewPods(c.client, c.node, changed)
}

// followNodes returns the nodes of the cluster as keep makes them: toTable, or toHybrid.
func followNodes(client *networkapi.Client, self string, keep func(*corev1.Node) table.Node,
	changed func(*table.Node)) *networkapi.Nodes[table.Node] {
	return networkapi.NewNodes(client,
		networkapi.NodesOptions[table.Node]{Own: self, Keep: keep, Same: sameNode, Changed: changed})
}

// toHybrid converts a node of a cluster with OVN-Kubernetes, which gives pod ranges by annotations. A range that does
// not parse is left out, as in toTable.
func toHybrid(n *corev1.Node) table.Node {
	ranges, err := vxlan.HybridRanges(n.Annotations)
	if err != nil {
		klog.Background().WithName("routes").Error(err, "A node's pod range cannot be read", "node", n.Name)
	}
	copied := *n
	copied.Spec.PodCIDR, copied.Spec.PodCIDRs = "", ranges
	return toTable(&copied)
}

// sameNode compares what routes depend on, and leaves out all else of a Node.
func sameNode(a, b table.Node) bool {
	return a.Name == b.Name && a.Since.Equal(b.Since) && a.Addr == b.Addr && a.Addr6 == b.Addr6 &&
		a.Cordoned == b.Cordoned && slices.Equal(a.PodCIDRs, b.PodCIDRs) && maps.Equal(a.Annotations, b.Annotations)
}

// toTable converts a node. Its address is the first internal one of the family of its first pod range; if that is
// IPv4, Addr6 is the first internal one of IPv6. Ranges and addresses that do not parse are left out, as if they were
// not assigned yet, and so are further ranges of a family.
func toTable(n *corev1.Node) table.Node {
	t := table.Node{Name: n.Name, Since: n.CreationTimestamp.UTC(), Cordoned: n.Spec.Unschedulable,
		Annotations: n.Annotations}
	ranges := n.Spec.PodCIDRs
	if len(ranges) == 0 && n.Spec.PodCIDR != "" {
		ranges = []string{n.Spec.PodCIDR}
	}
	for _, text := range ranges {
		p, err := netip.ParsePrefix(text)
		if err == nil && !slices.ContainsFunc(t.PodCIDRs,
			func(o netip.Prefix) bool { return o.Addr().Is4() == p.Addr().Is4() }) {
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

		// Link-local prefixes are left out, though the address may be of one.
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
