package web

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// made is a cluster that a test makes and changes. It plays the API and the nodes.
type made struct {
	mu       sync.Mutex
	nodes    []*v1.Node
	pods     []*v1.Pod
	services []*v1.Service
	slices   []*discoveryv1.EndpointSlice
	events   []*v1.Event
	apiErr   error
	// answers are those of the nodes, errors in their place.
	routes  map[string]map[string]any
	proxies map[string]map[string]any
	silent  map[string]bool
}

var began = time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)

// names of applications, for a picture that looks like a cluster of somebody.
var apps = []string{"cart", "catalog", "checkout", "identity", "inventory", "invoices", "orders", "payments", "search",
	"shipping"}

// newMade returns a cluster with so many nodes, every fifth with Linux, and pods. Every namespace has services.
func newMade(nodes, pods int) *made {
	m := &made{routes: map[string]map[string]any{}, proxies: map[string]map[string]any{}, silent: map[string]bool{}}
	builds := []string{"10.0.20348", "10.0.26100", "10.0.17763"}
	for i := range nodes {
		labels := map[string]string{v1.LabelOSStable: "windows", v1.LabelWindowsBuild: builds[i%3]}
		name, image, runtime := fmt.Sprintf("win%02d", i-i/5), "Windows Server Datacenter", "containerd://2.3.6"
		if i%5 == 0 {
			labels = map[string]string{v1.LabelOSStable: "linux"}
			name, image = fmt.Sprintf("lin%02d", i/5+1), "Debian GNU/Linux 12 (bookworm)"
		}
		m.nodes = append(m.nodes,
			&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels,
				CreationTimestamp: metav1.NewTime(began)},
				Spec: v1.NodeSpec{PodCIDR: fmt.Sprintf("10.244.%d.0/24", i)},
				Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP,
					Address: fmt.Sprintf("10.99.0.%d", i+11)}},
					Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue,
						LastTransitionTime: metav1.NewTime(began)}},
					NodeInfo: v1.NodeSystemInfo{OSImage: image, KubeletVersion: "v1.36.3",
						ContainerRuntimeVersion: runtime}}})
	}

	for i := range pods {
		m.pods = append(m.pods, m.pod(i))
	}
	for i, app := range apps {
		m.services = append(m.services, service(app, i))
		m.slices = append(m.slices, m.slice(app))
	}

	for _, n := range m.nodes {
		m.routes[n.Name] = routesOf(n.Name, m.nodes, "")
		m.proxies[n.Name] = map[string]any{"ready": true, "wanted": len(apps), "programmed": len(apps),
			"services": map[string]int{"programmed": len(apps)}}
	}
	return m
}

func (m *made) pod(i int) *v1.Pod {
	app, node := apps[i%len(apps)], m.nodes[i%len(m.nodes)].Name
	at := metav1.NewTime(began.Add(time.Duration(i) * time.Second))
	yes := func(kind v1.PodConditionType) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: at}
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-" + string(app[0]),
		Name: fmt.Sprintf("%s-%04d", app, i), UID: "u" + metav1.ObjectMeta{}.UID, CreationTimestamp: at},
		Spec: v1.PodSpec{NodeName: node,
			Containers: []v1.Container{{Name: "main", Image: "registry.example/shop/" + app + ":1.4"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: fmt.Sprintf("10.244.%d.%d", i%len(m.nodes), 2+i/len(m.nodes)),
			Conditions: []v1.PodCondition{yes(v1.PodScheduled), yes(v1.PodInitialized), yes(v1.ContainersReady),
				yes(v1.PodReady)}}}
}

func service(app string, i int) *v1.Service {
	ip := fmt.Sprintf("10.96.3.%d", i+1)
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-" + string(app[0]), Name: app},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			Selector: map[string]string{"app": app}, Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP}}}}
}

func (m *made) slice(app string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-" + string(app[0]), Name: app + "-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: app}}}
	for _, p := range m.pods {
		if len(s.Endpoints) < 100 && p.Spec.Containers[0].Image == "registry.example/shop/"+app+":1.4" {
			s.Endpoints = append(s.Endpoints,
				discoveryv1.Endpoint{Addresses: []string{p.Status.PodIP},
					TargetRef: &v1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}})
		}
	}
	return s
}

// routesOf is the answer of a node's agent; the route to missing is not there.
func routesOf(node string, nodes []*v1.Node, missing string) map[string]any {
	list, problems := []map[string]any{}, []string{}
	present := 0
	for _, n := range nodes {
		if n.Name == node {
			continue
		}
		r := map[string]any{"node": n.Name, "destination": n.Spec.PodCIDR, "nextHop": n.Status.Addresses[0].Address,
			"state": "present"}
		if n.Name == missing {
			r["state"], r["reason"] = "missing", "the host's table has no such route"
			problems = append(problems,
				fmt.Sprintf("route to %s of node %s: missing: the host's table has no such route", n.Spec.PodCIDR,
					n.Name))
		} else {
			present++
		}
		list = append(list, r)
	}
	return map[string]any{"mode": "host-gateway", "wanted": len(nodes) - 1, "present": present, "routes": list,
		"problems": problems}
}

func locked[T any](m *made, of func() []T) []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]T{}, of()...)
}

func (m *made) Nodes() []*v1.Node       { return locked(m, func() []*v1.Node { return m.nodes }) }
func (m *made) Pods() []*v1.Pod         { return locked(m, func() []*v1.Pod { return m.pods }) }
func (m *made) Services() []*v1.Service { return locked(m, func() []*v1.Service { return m.services }) }
func (m *made) Events() []*v1.Event     { return locked(m, func() []*v1.Event { return m.events }) }
func (m *made) Synced() bool            { return true }
func (m *made) Slices() []*discoveryv1.EndpointSlice {
	return locked(m, func() []*discoveryv1.EndpointSlice { return m.slices })
}

func (m *made) Ready(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.apiErr
}

func (m *made) Ask(_ context.Context, n model.NodeRef, p collect.Program, path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.silent[n.Name]:
		return nil, fmt.Errorf("dial tcp %s: connect: no route to host", n.Name)
	case p == collect.Proxy && n.OS == "linux":
		return nil, collect.ErrNone
	case p == collect.Proxy:
		return json.Marshal(m.proxies[n.Name])
	}
	return json.Marshal(m.routes[n.Name])
}

// setReady makes a pod ready or not, as an update of the API would.
func (m *made) setReady(i int, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[i].DeepCopy()
	for j := range p.Status.Conditions {
		if p.Status.Conditions[j].Type == v1.PodReady {
			p.Status.Conditions[j].Status = v1.ConditionFalse
			if ready {
				p.Status.Conditions[j].Status = v1.ConditionTrue
			}
			p.Status.Conditions[j].LastTransitionTime = metav1.Now()
		}
	}
	m.pods[i] = p
}
