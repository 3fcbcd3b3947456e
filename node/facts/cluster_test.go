package facts

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBackends reads the conditions and hints of endpoints. What the API leaves out means ready, serving and not
// terminating.
func TestBackends(t *testing.T) {
	yes, no, port, node := true, false, int32(80), "n"
	endpoint := func(ready, serving, terminating *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}}
	}
	hinted := endpoint(nil, nil, nil)
	hinted.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}},
		ForNodes: []discoveryv1.ForNode{{Name: "n"}}}

	for _, c := range []struct {
		endpoint discoveryv1.Endpoint
		want     string
	}{
		{endpoint(nil, nil, nil), "[{10.0.0.1:80 n false [] []}]"},
		{endpoint(&no, &no, nil), "[]"},
		{endpoint(&no, &yes, nil), "[]"},
		{endpoint(&no, &yes, &yes), "[{10.0.0.1:80 n true [] []}]"},
		{endpoint(&no, &no, &yes), "[]"},
		{endpoint(&yes, nil, &yes), "[{10.0.0.1:80 n false [] []}]"}, // of a service with publishNotReadyAddresses
		{hinted, "[{10.0.0.1:80 n false [n] [z]}]"},
	} {
		es := discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
			Ports:      []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: []discoveryv1.Endpoint{c.endpoint}}
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		if got := fmt.Sprint(backendsOf(s, "", []discoveryv1.EndpointSlice{es})); got != c.want {
			t.Errorf("%+v: %s, want %s", c.endpoint, got, c.want)
		}
	}
}

// TestPolicies: the addresses for clients outside of the cluster have a traffic policy of their own.
func TestPolicies(t *testing.T) {
	local := v1.ServiceInternalTrafficPolicyCluster
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "d"},
		Spec: v1.ServiceSpec{ClusterIP: "10.96.0.1", InternalTrafficPolicy: &local,
			ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicyLocal, ExternalIPs: []string{"203.0.113.1"},
			Ports: []v1.ServicePort{{Port: 80, NodePort: 30080}}}}
	got := toServices(s, nil)
	if len(got) != 2 || got[0].Local || got[0].External || !got[1].Local || !got[1].External ||
		got[1].NodePort != 30080 {
		t.Errorf("%+v", got)
	}
}
