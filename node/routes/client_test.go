package routes

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestToHybrid: in a cluster with OVN-Kubernetes a node has the range of the annotations. One in its spec is somebody
// else's, and one that does not parse is none.
func TestToHybrid(t *testing.T) {
	for text, want := range map[string]string{"10.132.1.0/24": "[10.132.1.0/24]", "10.132.1.0": "[]", "": "[]"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01",
			Annotations: map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": text}},
			Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}},
			Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
		if got := toHybrid(n); fmt.Sprint(got.PodCIDRs) != want || got.Addr.String() != "10.0.0.1" ||
			got.Name != "win01" {
			t.Errorf("%q: %+v, want the ranges %s", text, got, want)
		}
		if n.Spec.PodCIDR != "10.244.1.0/24" {
			t.Error("the node was changed")
		}
	}
}
