package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTrimForNetwork: what decides between nodes, and whether a pod is to be believed, is kept: when a Node was made,
// and who made a pod.
func TestTrimForNetwork(t *testing.T) {
	made := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	n, err := trimForNetwork(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lin01", CreationTimestamp: made}})
	if got := n.(*corev1.Node).CreationTimestamp; err != nil || !got.Equal(&made) {
		t.Errorf("the Node was made %v, want %v; %v", got, made, err)
	}

	owners := []metav1.OwnerReference{{Kind: "Node", Name: "lin01"}}
	p, err := trimForNetwork(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "static-lin01", OwnerReferences: owners}})
	if got := p.(*corev1.Pod).OwnerReferences; err != nil || len(got) != 1 || got[0].Kind != "Node" {
		t.Errorf("the pod belongs to %v, want %v; %v", got, owners, err)
	}
}
