package service_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"porthole.dev/porthole/proxy/service"
)

// A Tracker is told of Services and EndpointSlices as they come, and says what the changed services want of a node.
func ExampleTracker() {
	tracker := service.NewTracker(service.Node{Name: "win01"})
	tracker.SetService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.20",
			ClusterIPs: []string{"10.96.0.20"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}},
	})
	tracker.SetSlice(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.1.5"}, NodeName: ptr.To("win01")},
			{Addresses: []string{"10.244.2.7"}, NodeName: ptr.To("win02")},
		},
	})

	for _, state := range tracker.Take() {
		for _, f := range state.Frontends {
			fmt.Println(state.Service, f.Kind, f.Port)
			for _, b := range f.Backends {
				fmt.Printf("  %s:%d, on this node: %v\n", b.Addr, b.Port, b.Local)
			}
		}
	}
	fmt.Println("changed since then:", len(tracker.Take()))
	// Output:
	// shop/web cluster IP 80
	//   10.244.1.5:8080, on this node: true
	//   10.244.2.7:8080, on this node: false
	// shop/web node port 30080
	//   10.244.1.5:8080, on this node: true
	//   10.244.2.7:8080, on this node: false
	// changed since then: 0
}
