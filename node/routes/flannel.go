package routes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/routes/table"
	"porthole.dev/porthole/routes/vxlan"
)

// announcer is a keeper that tells flannel on other nodes how to reach this one. The mode vxlan does so by itself.
type announcer interface {
	// announcement returns annotations that this node lacks; none: it has all, or nobody needs them.
	announcement(self table.Node, nodes []table.Node) map[string]string
}

// hostGateway is the mode host-gateway. Nodes with flanneld route to this one as they do to each other (flannel's
// backend host-gw).
type hostGateway struct{ keeper }

// flannelHostGateway is the name of flannel's backend that does the same as the mode host-gateway.
const flannelHostGateway = "host-gw"

// announcement returns what flanneld writes in its backend host-gw, if another node has announced that backend.
// Without flannel in the cluster nobody needs it.
func (hostGateway) announcement(self table.Node, nodes []table.Node) map[string]string {
	flannel := slices.ContainsFunc(nodes, func(n table.Node) bool {
		return n.Name != self.Name && n.Annotations[vxlan.AnnotationBackendType] == flannelHostGateway
	})
	if !flannel || !self.Addr.IsValid() {
		return nil
	}

	missing := map[string]string{
		vxlan.AnnotationBackendType: flannelHostGateway, vxlan.AnnotationBackendData: "null",
		vxlan.AnnotationPublicIP: self.Addr.String(), vxlan.AnnotationSubnetManager: "true",
	}
	maps.DeleteFunc(missing, func(key, value string) bool { return self.Annotations[key] == value })
	return missing
}

// announce writes the annotations that flannel on other nodes needs.
func (a *agent) announce(ctx context.Context, k keeper, self table.Node) error {
	mode, is := k.(announcer)
	nodes, ok := a.cluster.List()
	if !is || !ok {
		return nil
	}
	for _, n := range nodes {
		if n.Name == a.o.Node {
			self.Name, self.Annotations = n.Name, n.Annotations
		}
	}

	missing := mode.announcement(self, nodes)
	if len(missing) == 0 {
		return nil
	}
	if err := a.cluster.Annotate(ctx, missing); err != nil {
		return fmt.Errorf("announcing this node to flannel: %w", err)
	}
	klog.FromContext(ctx).Info("Announced this node to flannel on other nodes", "annotations", fmt.Sprint(missing))
	return nil
}
