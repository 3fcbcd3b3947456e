package kube

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/internal/testkit/wait"
)

func TestSetNodeConditionLeavesOthers(t *testing.T) {
	ctx := context.Background()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
	err := SetNodeCondition(ctx, client, "win01", corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RoutesReady"})
	if err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(ctx, "win01", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Status.Conditions) != 2 {
		t.Fatalf("conditions %+v, want the old one and ours", node.Status.Conditions)
	}
}

func TestAnnotateNodeLeavesOthers(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01", Annotations: map[string]string{"a": "b"}}})
	if err := AnnotateNode(t.Context(), client, "win01", map[string]string{"c": "d"}); err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "win01", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node.Annotations["a"] != "b" || node.Annotations["c"] != "d" {
		t.Errorf("annotations %v, want the old one and ours", node.Annotations)
	}
}

func TestNodesKeepWhatTheyPromise(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win01", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan", nodeapi.ServiceProgrammer: "OVN", "other": "c"}},
		Spec:   corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24"}},
		Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.99.0.21"}}},
	})
	changed := make(chan *corev1.Node, 10)
	nodes, err := NewNodes(client, func(n *corev1.Node) { changed <- n })
	if err != nil {
		t.Fatal(err)
	}

	if _, ok := nodes.List(); ok {
		t.Error("nodes are known before the first list")
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { nodes.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()

	select {
	case n := <-changed:
		if n == nil || n.Name != "win01" {
			t.Errorf("changed is called with %+v, want the node", n)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no node heard of")
	}

	var list []*corev1.Node
	wait.True(t, 10*time.Second, "the nodes to be known", func() (ok bool) {
		list, ok = nodes.List()
		return ok
	})
	if len(list) != 1 || list[0].Spec.PodCIDRs[0] != "10.244.1.0/24" || list[0].Status.Addresses[0].Address != "10.99.0.21" {
		t.Fatalf("nodes %+v", list)
	}
	if len(list[0].Status.Images) > 0 || len(list[0].Labels) > 0 {
		t.Error("what nobody needs is kept")
	}
	if a := list[0].Annotations; len(a) != 2 || a["flannel.alpha.coreos.com/backend-type"] != "vxlan" || a[nodeapi.ServiceProgrammer] != "OVN" {
		t.Errorf("annotations %v, want flannel's and ours only", a)
	}
}
