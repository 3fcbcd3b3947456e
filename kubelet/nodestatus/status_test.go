package nodestatus

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/runtime"
)

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func addressList(ips ...string) func() []string { return func() []string { return ips } }

func someNode() (Options, statusFacts) {
	o := Options{Name: "n", IPs: addressList("10.0.0.1", "fd00::1"), Port: 10250, MaxPods: 110, Version: "v1.2.3",
		Reserved: list("memory", "100Mi", "cpu", "100m"),
		Host: platform.Host{OS: "linux", Arch: "amd64", CPUs: 2, MemoryBytes: 1 << 30, DiskBytes: 1 << 35,
			BootID: "b", MachineID: "m"}}
	return o, statusFacts{version: runtime.Version{Name: "containerd", Version: "v2.1.0"}, now: time.Unix(1000, 0),
		health: runtime.Health{RuntimeReady: true, NetworkReady: true}}
}

func condition(st v1.NodeStatus, kind v1.NodeConditionType) v1.NodeCondition {
	i := slices.IndexFunc(st.Conditions, func(c v1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		return v1.NodeCondition{}
	}
	return st.Conditions[i]
}

func TestNodeStatus(t *testing.T) {
	o, f := someNode()
	st := statusOf(o, f, v1.NodeStatus{})
	var kinds []v1.NodeConditionType
	for _, c := range st.Conditions {
		kinds = append(kinds, c.Type)
	}
	want := []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeReady}
	ready := condition(st, v1.NodeReady)
	for what, ok := range map[string]bool{
		"order of conditions": reflect.DeepEqual(kinds, want),
		"ready": ready.Status == v1.ConditionTrue && ready.Reason == "KubeletReady" &&
			ready.Message == "kubelet is posting ready status",
		"runtime": st.NodeInfo.ContainerRuntimeVersion == "containerd://2.1.0" &&
			st.NodeInfo.KubeletVersion == "v1.2.3",
		"allocatable": st.Allocatable.Memory().Value() == 1<<30-100<<20 &&
			st.Allocatable.Cpu().MilliValue() == 1900,
		"addresses": reflect.DeepEqual(st.Addresses, []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"},
			{Type: v1.NodeInternalIP, Address: "fd00::1"}, {Type: v1.NodeHostName, Address: "n"}}),
		"port": st.DaemonEndpoints.KubeletEndpoint.Port == 10250,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, st)
		}
	}

	o.Host.HugePages = map[int64]int64{2 << 20: 64 << 20, 1 << 30: 0}
	st = statusOf(o, f, v1.NodeStatus{})
	if huge, none := st.Capacity["hugepages-2Mi"], st.Allocatable["hugepages-1Gi"]; huge.Value() != 64<<20 ||
		!none.IsZero() || len(st.Capacity) != 6 ||
		st.Allocatable.Memory().Value() != 1<<30-164<<20 {
		t.Errorf("huge pages: %v, %v", st.Capacity, st.Allocatable)
	}
	o.PodsPerCore = 10
	if st := statusOf(o, f, v1.NodeStatus{}); st.Capacity.Pods().Value() != 20 {
		t.Errorf("10 pods for each of 2 CPUs: %v", st.Capacity)
	}
}

// TestNodeStatusKeepsForeign: what others wrote into the status stays, and pods can be given extended resources.
func TestNodeStatusKeepsForeign(t *testing.T) {
	o, f := someNode()
	old := statusOf(o, f, v1.NodeStatus{})
	old.Capacity["example.com/fakecpu"] = list("x", "1k")["x"]
	old.Capacity[v1.ResourceCPU] = list("x", "99")["x"] // ours: corrected
	old.VolumesAttached = []v1.AttachedVolume{{Name: "disk"}}
	old.Config = &v1.NodeConfigStatus{Error: "none"}
	gone := v1.NodeCondition{Type: "NetworkUnavailable", Status: v1.ConditionTrue, Reason: "NoRoute"}
	old.Conditions = append([]v1.NodeCondition{gone}, old.Conditions...)
	st := statusOf(o, f, old)
	extended := st.Allocatable["example.com/fakecpu"]
	if st.Capacity.Cpu().Value() != 2 || extended.Value() != 1000 || len(st.VolumesAttached) != 1 || st.Config == nil ||
		condition(st, "NetworkUnavailable") != gone {
		t.Errorf("status: %+v", st)
	}
	delete(old.Capacity, "example.com/fakecpu")
	old.Allocatable["example.com/fakecpu"] = extended
	if st := statusOf(o, f, old); len(st.Allocatable) != 4 {
		t.Errorf("a resource that was removed is still allocatable: %v", st.Allocatable)
	}
}

func TestNodeReadiness(t *testing.T) {
	o, f := someNode()
	before := statusOf(o, f, v1.NodeStatus{})

	f.health = runtime.Health{RuntimeMessage: "no shim", NetworkMessage: "no plugin"}
	f.now = f.now.Add(time.Minute)
	st := statusOf(o, f, before)
	c := condition(st, v1.NodeReady)
	if c.Status != v1.ConditionFalse || c.Reason != "KubeletNotReady" || c.LastTransitionTime.Time != f.now ||
		c.Message != "[container runtime not ready: no shim, container runtime network not ready: no plugin]" {
		t.Errorf("condition: %+v", c)
	}
	if pressure := condition(st, v1.NodeMemoryPressure); pressure.LastTransitionTime.Unix() != 1000 ||
		pressure.LastHeartbeatTime.Time != f.now {
		t.Errorf("a condition that stayed: %+v", pressure)
	}

	if got := transitions(before.Conditions, st.Conditions); !slices.Equal(got, []string{"NodeNotReady"}) {
		t.Errorf("events: %v", got)
	}
	if got := transitions(nil, before.Conditions); !slices.Equal(got,
		[]string{"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"}) {
		t.Errorf("events at the start: %v", got)
	}

	o.Host.MemoryBytes = 0
	if c := condition(statusOf(o, f, before), v1.NodeReady); !strings.Contains(c.Message,
		"missing node capacity for resources: memory") {
		t.Errorf("without a known size of memory: %+v", c)
	}
}

// TestNodeStatusClock: after the clock was set back, only the heartbeats differ, so that nothing is sent but signs of
// life.
func TestNodeStatusClock(t *testing.T) {
	o, f := someNode()
	before := statusOf(o, f, v1.NodeStatus{})
	f.now = f.now.Add(-time.Hour)
	after := statusOf(o, f, before)
	if !equality.Semantic.DeepEqual(withoutBeats(before), withoutBeats(after)) ||
		condition(after, v1.NodeReady).LastHeartbeatTime.Time != f.now {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestCloudAddresses(t *testing.T) {
	o, f := someNode()
	o.ExternalCloud = true
	if got := statusOf(o, f, v1.NodeStatus{}).Addresses; len(got) != 1 || got[0].Type != v1.NodeHostName {
		t.Errorf("before the cloud has answered: %v", got)
	}
	o.IPsGiven = true
	if got := statusOf(o, f, v1.NodeStatus{}).Addresses; len(got) != 3 {
		t.Errorf("with an address from the user: %v", got)
	}
	theirs := []v1.NodeAddress{{Type: v1.NodeExternalIP, Address: "203.0.113.1"}}
	if got := statusOf(o, f, v1.NodeStatus{Addresses: theirs}).Addresses; !reflect.DeepEqual(got, theirs) {
		t.Errorf("after the cloud has answered: %v", got)
	}
}

// TestNodePatch applies a patch as the API server does, to a node that others have changed in the meantime.
func TestNodePatch(t *testing.T) {
	o, f := someNode()
	before := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"mine": "1"}},
		Status: statusOf(o, f, v1.NodeStatus{})}
	o.IPs = addressList("10.0.0.2", "fd00::2")
	f.health.NetworkReady = false
	after := before.DeepCopy()
	after.Labels["os"] = "linux"
	after.Status = statusOf(o, f, before.Status)

	patch, err := nodePatch(before, after)
	if err != nil {
		t.Fatal(err)
	}

	server := before.DeepCopy()
	server.Labels["theirs"] = "2"
	server.Status.Capacity["example.com/x"] = list("x", "5")["x"]
	server.Status.Conditions = append(server.Status.Conditions,
		v1.NodeCondition{Type: "Theirs", Status: v1.ConditionTrue})
	text, err := json.Marshal(server)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(text, patch, v1.Node{})
	if err != nil {
		t.Fatalf("applying %s: %v", patch, err)
	}
	var got v1.Node
	if err := json.Unmarshal(merged, &got); err != nil {
		t.Fatal(err)
	}

	extended := got.Status.Capacity["example.com/x"]
	for what, ok := range map[string]bool{
		"addresses":         reflect.DeepEqual(got.Status.Addresses, after.Status.Addresses),
		"condition":         condition(got.Status, v1.NodeReady).Status == v1.ConditionFalse,
		"foreign condition": condition(got.Status, "Theirs").Status == v1.ConditionTrue,
		"foreign resource":  extended.Value() == 5,
		"labels": reflect.DeepEqual(got.Labels,
			map[string]string{"mine": "1", "theirs": "2", "os": "linux"}),
	} {
		if !ok {
			t.Errorf("%s: %s\nafter %s", what, merged, patch)
		}
	}
}

func TestAllocatable(t *testing.T) {
	got := allocatable(list("cpu", "2", "memory", "1Gi", "hugepages-2Mi", "256Mi", "example.com/x", "3"),
		list("cpu", "500m", "memory", "256Mi"), list("cpu", "3"))
	want := list("cpu", "0", "memory", "512Mi", "hugepages-2Mi", "256Mi", "example.com/x", "3")
	for name := range want {
		w, g := want[name], got[name]
		if w.Cmp(g) != 0 {
			t.Errorf("%s: %s, want %s", name, g.String(), w.String())
		}
	}
	if len(got) != len(want) {
		t.Errorf("allocatable: %v", got)
	}
}
