package model

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func event(kind, reason, message string, count int32) *v1.Event {
	e := &v1.Event{Reason: reason, Message: message, Count: count,
		InvolvedObject: v1.ObjectReference{Kind: kind, Namespace: "shop", Name: "web", UID: "1"},
		LastTimestamp:  before(5 * time.Second)}
	if count > 1 {
		e.Type = v1.EventTypeWarning
	}
	return e
}

// TestWhyPod: each obstacle is the first step that is not done, with what was tried and what to do; what is behind it
// waits.
func TestWhyPod(t *testing.T) {
	sandbox := func(p *v1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions,
			v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue,
				LastTransitionTime: before(20 * time.Second)})
	}
	badImage := func(p *v1.Pod) {
		sandbox(p)
		waiting("ImagePullBackOff", "no such image")(p)
		p.Spec.Containers = []v1.Container{{Name: "main", Image: "shop/web:2"}}
	}

	for name, c := range map[string]struct {
		pod    *v1.Pod
		events []*v1.Event
		node   v1.ConditionStatus
		step   string
		state  State
		tried  string
		do     string
	}{
		"no node": {aPod(time.Minute,
			func(p *v1.Pod) { p.Spec.NodeName = ""; p.Status.Conditions[0].Status = v1.ConditionFalse }),
			[]*v1.Event{event("Pod", "FailedScheduling", "0/3", 4)}, v1.ConditionTrue, "a node is chosen", Wrong,
			"4 times, the last 5s ago", "kubectl get nodes"},
		"node not ready": {aPod(time.Minute, func(*v1.Pod) {}), nil, v1.ConditionFalse, "its node works", Wrong, "",
			"porthole why node win01"},
		"volumes": {aPod(time.Minute, func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "x"}} }),
			[]*v1.Event{event("Pod", "FailedMount", "secret x not found", 3)}, v1.ConditionTrue, "volumes", Wrong,
			"3 times", "kubectl describe pod"},
		"sandbox": {aPod(time.Minute, func(*v1.Pod) {}),
			[]*v1.Event{event("Pod", "FailedCreatePodSandBox", "HNS failed", 7)}, v1.ConditionTrue,
			"sandbox and network", Wrong, "7 times", "porthole why node win01"},
		"image": {aPod(time.Minute, badImage), []*v1.Event{event("Pod", "Failed", "no such image", 2)},
			v1.ConditionTrue, "images", Wrong, "2 times", "porthole images check shop/web:2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{Pods: []*v1.Pod{c.pod}, Nodes: []*v1.Node{aNode("win01", c.node)}, Events: c.events}

			got, err := Why(f, "pod", "shop/web", now)
			if err != nil {
				t.Fatal(err)
			}
			var first *Step
			for i := range got.Steps {
				if got.Steps[i].State != Right {
					first = &got.Steps[i]
					break
				}
			}
			if first == nil || first.Name != c.step || first.State != c.state ||
				!strings.Contains(first.Tried, c.tried) || !strings.Contains(strings.Join(first.Do, "\n"), c.do) {
				t.Fatalf("the first step that is not done is %+v, want %s: %s, tried %q, do %q", first, c.step, c.state,
					c.tried, c.do)
			}
			if got.State != Wrong || !strings.HasPrefix(got.Text, c.step+": ") {
				t.Errorf("the pod is %s: %q", got.State, got.Text)
			}
			if last := got.Steps[len(got.Steps)-1]; last.Name == "ready" && !last.Waits {
				t.Errorf("the last step does not wait: %+v", last)
			}
		})
	}
}

// TestWhyNotIsolated: a pod with a RuntimeClass on an emulated Windows host is told that Hyper-V isolates nothing
// there; others are not.
// Row 1.99.
func TestWhyNotIsolated(t *testing.T) {
	for name, c := range map[string]struct {
		class string
		local bool
		os    string
		said  bool
	}{
		"emulated": {"old", true, "windows", true}, "no class": {"", true, "windows", false},
		"another cluster": {"old", false, "windows", false}, "Linux": {"old", true, "linux", false},
	} {
		p := aPod(time.Hour, func(p *v1.Pod) {
			running(v1.ConditionTrue, time.Minute)(p)
			p.Spec.RuntimeClassName = &c.class
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main",
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: before(2 * time.Minute)}}}}
		})
		n := aNode("win01", v1.ConditionTrue)
		n.Labels[v1.LabelOSStable] = c.os

		got, err := Why(&Facts{Local: c.local, Pods: []*v1.Pod{p}, Nodes: []*v1.Node{n}}, "pod", "shop/web", now)
		if err != nil {
			t.Fatal(err)
		}
		said := false
		for _, s := range got.Steps {
			said = said || s.Name == "sandbox and network" && s.State == Right &&
				strings.Contains(s.Text, "RuntimeClass old: not isolated by Hyper-V here")
		}
		if said != c.said {
			t.Errorf("%s: %+v", name, got.Steps)
		}
	}
}

func TestWhyRightAndUnknown(t *testing.T) {
	ready := aPod(time.Hour, running(v1.ConditionTrue, time.Minute))
	ready.Spec.Containers = []v1.Container{{Name: "main"}}
	ready.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main",
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: before(2 * time.Minute)}}}}
	f := &Facts{Pods: []*v1.Pod{ready}, Nodes: []*v1.Node{aNode("win01", v1.ConditionTrue)},
		Services: []*v1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}},
		Reports: map[string]Report{"win01": {Routes: Answer[RoutesDocument]{Error: "refused", Since: now},
			Proxy: Answer[ProxyDocument]{None: true}}}}

	if c, err := Why(f, "pod", "shop/web", now); err != nil || c.State != Right {
		t.Errorf("a ready pod is %s: %s, %v: %+v", c.State, c.Text, err, c.Steps)
	}
	if c, err := Why(f, "", "win01", now); err != nil || c.Kind != "node" || c.State != Unknown ||
		!strings.Contains(c.Text, "refused") {
		t.Errorf("a node whose agent does not answer is %+v, %v", c, err)
	}
	if c, err := Why(f, "service", "shop/web", now); err != nil || c.State == Wrong {
		t.Errorf("a service is %s: %s, %v", c.State, c.Text, err)
	}
	var unknown *UnknownName
	if _, err := Why(f, "pod", "nothing", now); !errors.As(err, &unknown) || unknown.Name != "default/nothing" {
		t.Errorf("a pod that is not there: %v", err)
	}
}

func TestSeries(t *testing.T) {
	at := func(s int, counts ...float64) Sample {
		return Sample{At: now.Add(time.Duration(s) * time.Second),
			Latency: []Bucket{{0.01, counts[0]}, {0.1, counts[1]}, {1e9, counts[1]}},
			Calls:   map[[2]string]float64{{"create", "ok"}: counts[1], {"create", "busy"}: counts[2]},
			Seconds: map[string]float64{"create": counts[1] / 100}}
	}
	samples := []Sample{at(0, 1, 2, 0), at(10, 1, 12, 5), at(20, 1, 12, 5), at(30, 0, 4, 0)}
	points := Latency("win01", samples)
	if len(points) != 2 || points[0].Count != 10 || points[0].Median <= 10 || points[0].Median >= 100 ||
		points[1].Count != 4 {
		t.Errorf("the latencies are %+v: want ten changes of 10 to 100 ms, then four after a restart", points)
	}
	rates := CallRates("win01", samples[:2])
	if len(rates) != 1 || rates[0].PerSecond != 1.5 || rates[0].Failed != 0.5 {
		t.Errorf("the calls are %+v: want 1.5 each second, 0.5 of which fail", rates)
	}
}

func TestChanges(t *testing.T) {
	snapshot := func(state State) *Snapshot { return &Snapshot{Services: []Service{{Key: "shop/web", State: state}}} }
	since := map[string]time.Time{}
	if c := Changes(snapshot(Right), snapshot(Right), since, now); len(c) != 0 {
		t.Errorf("without a change: %v", c)
	}
	Changes(snapshot(Right), snapshot(Wrong), since, now)
	c := Changes(snapshot(Wrong), snapshot(Right), since, now.Add(3*time.Second))
	if len(c) != 1 || c[0].Lasted != 3 || c[0].To != Right {
		t.Errorf("the service was wrong for three seconds, and the change is %+v", c)
	}
	if c := Changes(snapshot(Right), &Snapshot{}, since, now); len(c) != 1 || c[0].To != "" {
		t.Errorf("the service is gone, and the change is %+v", c)
	}
}
