package kubeproxy

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestUserspaceNodePorts: mode userspace serves node ports at the ranges, or at the node's primary addresses.
func TestUserspaceNodePorts(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.4"}}}}
	p, _ := bench(t, fake.NewClientset(node))
	if o := p.servingOptions(); o.Primary != nil || fmt.Sprint(o.NodePorts) != "[127.0.0.0/8]" {
		t.Errorf("with ranges: %v, primary addresses %t", o.NodePorts, o.Primary != nil)
	}

	p.NodePortsPrimary = true
	o := p.servingOptions()
	if o.Primary == nil {
		t.Fatal("no primary addresses")
	}
	wait.NoError(t, 20*time.Second, "the node's address is known", func() error {
		got, err := o.Primary()
		if err == nil && fmt.Sprint(got) != "[10.0.0.4]" {
			err = fmt.Errorf("got %v", got)
		}
		return err
	})
}
