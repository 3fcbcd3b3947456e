package model

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// aPod returns a pod that was bound so long ago and changed by with.
func aPod(age time.Duration, with func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1",
		CreationTimestamp: before(age)},
		Spec: v1.PodSpec{NodeName: "win01"},
		Status: v1.PodStatus{Phase: v1.PodPending,
			Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue,
				LastTransitionTime: before(age)}}}}
	with(p)
	return p
}

func waiting(reason, message string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main",
			State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

func running(ready v1.ConditionStatus, since time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Phase = v1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions,
			v1.PodCondition{Type: v1.PodReady, Status: ready, LastTransitionTime: before(since),
				Reason: "ContainersNotReady"})
	}
}

func TestPods(t *testing.T) {
	warning := &v1.Event{Type: v1.EventTypeWarning, Reason: "FailedCreatePodSandBox", Message: "HNS says no", Count: 1,
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web", UID: "1"},
		LastTimestamp:  before(time.Second)}
	often := warning.DeepCopy()
	often.Count = 3
	stranger := warning.DeepCopy()
	stranger.InvolvedObject.UID = "of the pod before"

	for name, c := range map[string]struct {
		pod   *v1.Pod
		event *v1.Event
		state State
		text  string
	}{
		"not bound": {aPod(time.Second, func(p *v1.Pod) { p.Spec.NodeName, p.Status.Conditions = "", nil }), nil,
			Making, "has not chosen a node"},
		"no node fits": {aPod(time.Second, func(p *v1.Pod) {
			p.Spec.NodeName = ""
			p.Status.Conditions[0].Status, p.Status.Conditions[0].Message = v1.ConditionFalse, "0/3 nodes are available"
		}), nil, Wrong, "0/3 nodes"},
		"starts":          {aPod(time.Minute, func(*v1.Pod) {}), nil, Making, "starts on win01"},
		"starts for long": {aPod(6*time.Minute, func(*v1.Pod) {}), nil, Wrong, "starts on win01"},
		"one warning": {aPod(time.Minute, func(*v1.Pod) {}), warning, Making,
			"FailedCreatePodSandBox: HNS says no"},
		"warnings": {aPod(time.Minute, func(*v1.Pod) {}), often, Wrong, "HNS says no"},
		"warning of another pod of the name": {aPod(time.Minute, func(*v1.Pod) {}), stranger, Making,
			"starts on win01"},
		"image": {aPod(time.Minute, waiting("ImagePullBackOff", "no such image")), nil,
			Wrong, "container main waits: ImagePullBackOff: no such image"},
		"being created": {aPod(time.Minute, waiting("ContainerCreating", "")), nil, Making,
			"starts"},
		"ready": {aPod(time.Hour, running(v1.ConditionTrue, time.Minute)), nil, Right, ""},
		"just not ready": {aPod(time.Hour, running(v1.ConditionFalse, 30*time.Second)), nil, Making,
			"not ready"},
		"not ready": {aPod(time.Hour, running(v1.ConditionFalse, 2*time.Minute)), nil, Wrong,
			"not ready"},
		"completed": {aPod(time.Hour, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
			nil, Right, ""},
		"evicted": {aPod(time.Hour,
			func(p *v1.Pod) { p.Status.Phase, p.Status.Reason = v1.PodFailed, "Evicted" }), nil, Wrong, "Evicted"},
		"ends": {aPod(time.Hour,
			func(p *v1.Pod) { at := before(-10 * time.Second); p.DeletionTimestamp = &at }), nil, Making,
			"being ended"},
		"should have ended": {aPod(time.Hour,
			func(p *v1.Pod) { at := before(3 * time.Minute); p.DeletionTimestamp = &at }), nil, Wrong,
			"should have ended 3m ago"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{Pods: []*v1.Pod{c.pod}}
			if c.event != nil {
				f.Events = []*v1.Event{c.event}
			}
			got := Build(f, now).Pods[0]
			text := ""
			if got.Problem != nil {
				text = got.Problem.Text
			}
			if got.State != c.state || !strings.Contains(text, c.text) || (c.text == "") != (text == "") {
				t.Errorf("is %s: %q, want %s: %q", got.State, text, c.state, c.text)
			}
			if got.Problem != nil && !strings.Contains(got.Problem.Command, "porthole why pod shop/web") {
				t.Errorf("the command is %q", got.Problem.Command)
			}
		})
	}
}

func aNode(name string, ready v1.ConditionStatus) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelOSStable: "windows"}},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready,
			Reason: "KubeletNotReady", Message: "no network"}}}}
}

func TestNodes(t *testing.T) {
	fresh := func(d RoutesDocument) Answer[RoutesDocument] { return Answer[RoutesDocument]{Last: &d, At: now} }
	missing := RoutesDocument{Mode: "host-gateway", Wanted: 2, Present: 1,
		Problems: []string{"pod network: odd", "route to 10.244.1.0/24 of node win02: missing: gone"}}
	missing.Routes = append(missing.Routes, struct {
		Node        string `json:"node"`
		Destination string `json:"destination"`
		NextHop     string `json:"nextHop"`
		State       string `json:"state"`
		Reason      string `json:"reason"`
	}{Node: "win02", Destination: "10.244.1.0/24", State: "missing", Reason: "gone"})

	for name, c := range map[string]struct {
		facts Facts
		state State
		text  string
	}{
		"right": {Facts{Nodes: []*v1.Node{aNode("win01", v1.ConditionTrue)}}, Right, ""},
		"not ready": {Facts{Nodes: []*v1.Node{aNode("win01", v1.ConditionFalse)}}, Wrong,
			"KubeletNotReady: no network"},
		"has not registered": {Facts{Expected: []string{"win01"}}, Wrong, "has not registered"},
		"a route is missing": {Facts{Nodes: []*v1.Node{aNode("win01", v1.ConditionTrue)},
			Reports: map[string]Report{"win01": {Routes: fresh(missing)}}}, Wrong, "win02: missing: gone"},
		"agent does not answer": {Facts{Nodes: []*v1.Node{aNode("win01", v1.ConditionTrue)},
			Reports: map[string]Report{"win01": {Routes: Answer[RoutesDocument]{Error: "refused", Since: now}}}},
			Unknown, "does not answer: refused"},
		"a service failed": {Facts{Nodes: []*v1.Node{aNode("win01", v1.ConditionTrue)},
			Reports: map[string]Report{"win01": {Proxy: Answer[ProxyDocument]{At: now,
				Last: &ProxyDocument{Services: map[string]int{"failed": 1},
					Failed: []ProxyLine{{Service: "shop/web", State: "failed", Reason: "PortsExhausted"}}}}}}}, Wrong,
			"shop/web: PortsExhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			n := Build(&c.facts, now).Nodes[0]
			texts := []string{}
			for _, p := range n.Problems {
				texts = append(texts, p.Text)
			}
			all := strings.Join(texts, "\n")
			if n.State != c.state || !strings.Contains(all, c.text) || (c.text == "") != (all == "") {
				t.Errorf("is %s with problems %q, want %s: %q", n.State, all, c.state, c.text)
			}
		})
	}
	if n := Build(&Facts{Expected: []string{"win01"}, API: API{Error: "away"}}, now).Nodes; len(n) != 0 {
		t.Errorf("nodes that the API never told of count as not registered: %v", n)
	}
}

func TestServices(t *testing.T) {
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1",
			ClusterIPs: []string{"10.96.0.1"}}}
	no := false
	slice := func(ready *bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.2"},
				Conditions: discoveryv1.EndpointConditions{Ready: ready},
				TargetRef:  &v1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1"}}}}
	}
	failed := map[string]Report{
		"win01": {Proxy: Answer[ProxyDocument]{At: now,
			Last: &ProxyDocument{Failed: []ProxyLine{{Service: "shop/web", State: "failed", Reason: "Hns",
				Message: "out of ports"}}}}}}

	for name, c := range map[string]struct {
		slices  []*discoveryv1.EndpointSlice
		reports map[string]Report
		state   State
		text    string
	}{
		"right":      {[]*discoveryv1.EndpointSlice{slice(nil)}, nil, Right, ""},
		"two slices": {[]*discoveryv1.EndpointSlice{slice(nil), slice(nil)}, nil, Right, ""},
		"no pods":    {nil, nil, Making, "no pod matches"},
		"none ready": {[]*discoveryv1.EndpointSlice{slice(&no)}, nil, Making, "none of its 1 pod is ready"},
		"not in HNS": {[]*discoveryv1.EndpointSlice{slice(nil)}, failed, Wrong, "on win01: Hns: out of ports"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Build(&Facts{Services: []*v1.Service{svc}, Slices: c.slices, Reports: c.reports}, now).Services[0]
			text := ""
			if len(s.Problems) > 0 {
				text = s.Problems[0].Text
			}
			if s.State != c.state || !strings.Contains(text, c.text) || (c.text == "") != (text == "") {
				t.Errorf("is %s: %q, want %s: %q", s.State, text, c.state, c.text)
			}
			if len(c.slices) > 0 && s.Ready+s.Unready != 1 {
				t.Errorf("%d endpoints, want 1: an address in two slices counts once", s.Ready+s.Unready)
			}
		})
	}
}

func TestDiffLeadsFromOneToTheOther(t *testing.T) {
	facts := &Facts{Nodes: []*v1.Node{aNode("win01", v1.ConditionTrue)},
		Pods: []*v1.Pod{aPod(time.Minute, func(*v1.Pod) {})}}
	first, err := Encode(Build(facts, now), nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Encode(Build(facts, now.Add(time.Second)), first); !Diff(first, again).Empty() {
		t.Errorf("a second later, without a change, there is a patch: %v", Diff(first, again))
	}

	facts.Nodes = append(facts.Nodes, aNode("win02", v1.ConditionTrue))
	facts.Pods = nil
	second, _ := Encode(Build(facts, now), first)
	p := Diff(first, second)
	if len(p.Set) != 1 || p.Set["node/win02"] == nil || len(p.Gone) != 1 || p.Gone[0] != "pod/shop/web" {
		t.Errorf("the patch is %v", p)
	}
}

// TestDocumentText: what a document writes is the same JSON value, also without anything in it; and what did not
// change is the same memory.
func TestDocumentText(t *testing.T) {
	for _, d := range []Document{{}, {"a": []byte("1")}, {"a": []byte(`{"b":"\u003c"}`), `q"`: []byte("[]")}} {
		var text bytes.Buffer
		if err := d.Write(&text); err != nil {
			t.Fatal(err)
		}
		var back Document
		if err := json.Unmarshal(text.Bytes(), &back); err != nil || !Diff(d, back).Empty() || len(back) != len(d) {
			t.Errorf("%s is %v, %v", text.Bytes(), back, err)
		}
	}

	s := Snapshot{Pods: []Pod{{Key: "a/b", Phase: "<x>"}, {Key: "a/c"}}}
	first, err := Encode(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Pods[1].Phase = "other"
	second, _ := Encode(s, first)
	if &first["pod/a/b"][0] != &second["pod/a/b"][0] || bytes.Equal(first["pod/a/c"], second["pod/a/c"]) {
		t.Errorf("%s then %s", first, second)
	}
}
