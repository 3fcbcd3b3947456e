package networkapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"porthole.dev/porthole/internal/testkit/wait"
)

// api returns a Client whose calls go to client-go's fake.
func api(client *fake.Clientset) *Client {
	return &Client{
		Services: func(namespace string) Lister[*corev1.ServiceList] { return client.CoreV1().Services(namespace) },
		Slices:   client.DiscoveryV1().EndpointSlices(""), Nodes: client.CoreV1().Nodes(),
		Pods:   client.CoreV1().Pods(""),
		Events: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, NoWatchLists: true,
		PatchNodeStatus: func(ctx context.Context, name string, patch []byte) error {
			_, err := client.CoreV1().Nodes().PatchStatus(ctx, name, patch)
			return err
		},
	}
}

func eventsIn(client *fake.Clientset) []corev1.Event {
	list, err := client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return list.Items
}

func TestServiceEvents(t *testing.T) {
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1"}}
	client := fake.NewClientset(web)
	ctx, stop := context.WithCancel(context.Background())
	e := NewServiceEvents(ctx, api(client), "kube-proxy", "win01")
	e.Event("shop/gone", true, "Lost", "nobody hears this")
	e.Event("shop/web", true, "FailedToProgramLoadBalancer", "no ports")
	wait.True(t, 20*time.Second, "the event is written", func() bool { return len(eventsIn(client)) > 0 })
	got := eventsIn(client)[0]
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web", UID: "uid-1"}
	if got.InvolvedObject != about || got.Type != "Warning" || got.Reason != "FailedToProgramLoadBalancer" ||
		got.Message != "no ports" ||
		got.Source != (corev1.EventSource{Component: "kube-proxy", Host: "win01"}) || len(eventsIn(client)) != 1 {
		t.Errorf("events %+v", eventsIn(client))
	}

	client.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("away")
	})
	e.Event("shop/web", false, "ProgrammedLoadBalancer", "again")
	wait.True(t, 20*time.Second, "an event goes out although the service cannot be looked up",
		func() bool { return len(eventsIn(client)) == 2 })
	stop()
	e.Close()

	for range serviceEventQueue + 3 {
		e.Event("shop/web", false, "A", "b")
	}
	if e.Dropped() != 3 {
		t.Errorf("%d dropped, want 3", e.Dropped())
	}
}

func TestOwnNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.4"},
			{Type: corev1.NodeHostName, Address: "win01"}}}}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win02"},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: toBeDeleted}}}}
	client := fake.NewClientset(node, other)
	ctx := t.Context()
	n, err := WatchOwnNode(ctx, api(client), "win01")
	if err != nil {
		t.Fatal(err)
	}
	if !n.Eligible() {
		t.Error("not eligible before anything is known")
	}

	wait.True(t, 20*time.Second, "the address is known",
		func() bool { return strings.Join(n.Addresses(), ",") == "10.0.0.4" })
	update := func(change func(*corev1.Node)) {
		change(node)
		if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-n.Changed():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was told of the address")
	}
	update(func(n *corev1.Node) {
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::4"},
			corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.4"})
	})
	<-n.Changed()
	if got := fmt.Sprint(n.InternalIPs()); got != "[10.0.0.4 fd00::4]" {
		t.Error(got)
	}

	update(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "other"}, {Key: toBeDeleted}} })
	wait.True(t, 20*time.Second, "the taint counts", func() bool { return !n.Eligible() })
	update(func(n *corev1.Node) { n.Spec.Taints = nil })
	wait.True(t, 20*time.Second, "without it the node is back", n.Eligible)
	now := metav1.Now()
	update(func(n *corev1.Node) { n.DeletionTimestamp, n.Finalizers = &now, []string{"x"} })
	wait.True(t, 20*time.Second, "a node being deleted is not", func() bool { return !n.Eligible() })
	update(func(n *corev1.Node) { n.DeletionTimestamp = nil })
	wait.True(t, 20*time.Second, "back again", n.Eligible)
	if err := client.CoreV1().Nodes().Delete(ctx, "win01", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	wait.True(t, 20*time.Second, "a node that is gone is not", func() bool { return !n.Eligible() })
	if len(n.InternalIPs()) != 2 {
		t.Error("the addresses are gone with the object")
	}
}
