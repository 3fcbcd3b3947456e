package networkapi

import (
	"context"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"porthole.dev/porthole/internal/nodeapi"
)

func TestSetNodeConditionLeavesOthers(t *testing.T) {
	ctx := context.Background()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
	err := SetNodeCondition(ctx, api(client), "win01",
		corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RoutesReady"})
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
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01", Annotations: map[string]string{"a": "b"}}})
	if err := AnnotateNode(t.Context(), api(client), "win01", map[string]string{"c": "d"}); err != nil {
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

// keptNode is what the tests keep of a node.
type keptNode struct {
	name, pods  string
	annotations map[string]string
}

// followed starts to follow the nodes of a cluster. What Changed is called with comes out of the channel.
func followed(t *testing.T, client *fake.Clientset) (*Nodes[keptNode], chan *keptNode) {
	changed := make(chan *keptNode, 100)
	nodes := NewNodes(api(client), NodesOptions[keptNode]{Own: "win01", Changed: func(n *keptNode) { changed <- n },
		Keep: func(n *corev1.Node) keptNode { return keptNode{n.Name, n.Spec.PodCIDR, n.Annotations} },
		Same: func(a, b keptNode) bool { return a.pods == b.pods && maps.Equal(a.annotations, b.annotations) }})
	if _, ok := nodes.List(); ok {
		t.Error("nodes are known before the first list")
	}
	watched := watching(client, "nodes")
	done := make(chan struct{})
	go func() { nodes.Run(t.Context()); close(done) }()
	t.Cleanup(func() { <-done })
	if next(t, changed) != nil {
		t.Error("the first list is complete: changed is called with a node")
	}
	<-watched // the fake loses what happens between a list and the watch after it
	return nodes, changed
}

func next(t *testing.T, changed chan *keptNode) *keptNode {
	t.Helper()
	select {
	case n := <-changed:
		return n
	case <-time.After(20 * time.Second):
		t.Fatal("no change heard of")
		return nil
	}
}

// TestNodesKeepWhatTheyPromise: of a node nothing else is kept, and only changes of that are told.
func TestNodesKeepWhatTheyPromise(t *testing.T) {
	node := func(name, pods string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan",
				nodeapi.ServiceProgrammer: "OVN", "other": "c"}}, Spec: corev1.NodeSpec{PodCIDR: pods}}
	}
	client := fake.NewClientset(node("win02", "10.244.2.0/24"), node("win01", "10.244.1.0/24"))
	nodes, changed := followed(t, client)
	list, ok := nodes.List()
	if !ok || len(list) != 2 || list[0].name != "win01" || list[1].pods != "10.244.2.0/24" {
		t.Fatalf("%v, %+v", ok, list)
	}
	if a := list[0].annotations; len(a) != 2 || a["flannel.alpha.coreos.com/backend-type"] != "vxlan" ||
		a[nodeapi.ServiceProgrammer] != "OVN" {
		t.Errorf("annotations %v, want flannel's and ours only", a)
	}

	update := func(n *corev1.Node) {
		if _, err := client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	other := node("win02", "10.244.2.0/24")
	other.Labels, other.Status.Conditions = map[string]string{"a": "b"},
		[]corev1.NodeCondition{{Type: corev1.NodeReady}}
	update(other) // nothing that is kept: the next change told is the one after it
	update(node("win02", "10.244.9.0/24"))
	if n := next(t, changed); n == nil || n.pods != "10.244.9.0/24" {
		t.Errorf("changed is called with %+v, want win02", n)
	}
	if now, _ := nodes.List(); list[1].pods != "10.244.2.0/24" || now[1].pods != "10.244.9.0/24" {
		t.Errorf("the list of before has %+v, that of now %+v", list, now)
	}

	if err := client.CoreV1().Nodes().Delete(t.Context(), "win02", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := next(t, changed); n != nil {
		t.Errorf("a node that is gone: changed is called with %+v", n)
	}
	if list, _ := nodes.List(); len(list) != 1 {
		t.Errorf("left are %+v", list)
	}
}

// TestOwnNodeIsKept: of the own node conditions count too, but not their times.
func TestOwnNodeIsKept(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}}}
	client := fake.NewClientset(node)
	nodes, changed := followed(t, client)
	for _, change := range []struct {
		status corev1.ConditionStatus
		at     int64
	}{{"True", 1}, {"True", 2}, {"False", 3}} {
		node = node.DeepCopy()
		node.Status.Conditions[0].Status, node.Status.Conditions[0].LastHeartbeatTime = change.status,
			metav1.Unix(change.at, 0)
		if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	next(t, changed)
	if own := nodes.Own(); own == nil || own.Status.Conditions[0].Status != "False" || len(changed) > 0 {
		t.Errorf("the own node is %+v, and %d more changes were told", own, len(changed))
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "win01", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if next(t, changed); nodes.Own() != nil {
		t.Error("the own node is there after it was deleted")
	}
}

// TestListAsWatch: a list that comes as a watch is trimmed while it is received (client-go's reflector calls the
// Transformer), and is the same as one that comes as a whole.
func TestListAsWatch(t *testing.T) {
	var changed []*keptNode
	nodes := NewNodes(nil, NodesOptions[keptNode]{Own: "win01",
		Changed: func(n *keptNode) { changed = append(changed, n) },
		Keep:    func(n *corev1.Node) keptNode { return keptNode{n.Name, n.Spec.PodCIDR, n.Annotations} },
		Same:    func(a, b keptNode) bool { return a.pods == b.pods && maps.Equal(a.annotations, b.annotations) }})
	store := nodeStore[keptNode]{nodes}
	temporary := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.WithTransformer(store.Transformer()))
	for name, pods := range map[string]string{"win02": "10.244.2.0/24", "win01": "10.244.1.0/24",
		"lin01": "10.244.0.0/24"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{nodeapi.ServiceProgrammer: "OVN", "other": "c", ownAnnotation: "[]"}},
			Spec: corev1.NodeSpec{PodCIDR: pods}}
		if err := temporary.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	if err := temporary.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lin01"}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Replace(temporary.List(), "7"); err != nil {
		t.Fatal(err)
	}

	list, ok := nodes.List()
	if !ok || len(list) != 2 || list[0].name != "win01" || list[1].pods != "10.244.2.0/24" ||
		len(list[1].annotations) != 1 {
		t.Errorf("%v, %+v", ok, list)
	}
	if own := nodes.Own(); own == nil || own.Name != "win01" || len(own.Annotations) != 2 {
		t.Errorf("the own node is %+v", own)
	}
	if len(changed) != 1 || changed[0] != nil {
		t.Errorf("changed is called with %v, want nil once", changed)
	}
	if err := store.Replace([]any{"a node"}, "8"); err == nil || len(nodes.kept) != 2 {
		t.Errorf("a list of something else: %v, and %d nodes are left", err, len(nodes.kept))
	}
}
