package admit

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/pod/desired"
)

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func asking(pairs ...string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(strings.Join(pairs, "/"))},
		Spec: v1.PodSpec{NodeName: "n",
			Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list(pairs...)}}}}}
}

func with(p *v1.Pod, change func(*v1.Pod)) *v1.Pod { change(p); return p }

// claiming is p with a resource claim that serves what its container asks for under this name.
func claiming(p *v1.Pod, resource string) *v1.Pod {
	p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "claim",
		RequestMappings: []v1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: resource,
			RequestName: "r"}}}
	return p
}

func port(ip string, number int32, protocol v1.Protocol) *v1.Pod {
	return with(asking(), func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostIP: ip, HostPort: number, Protocol: protocol}}
	})
}

// TestCheck goes through the reasons and messages of upstream, which users and other controllers read.
func TestCheck(t *testing.T) {
	yes := true
	always := v1.ContainerRestartPolicyAlways
	strict := v1.SupplementalGroupsPolicyStrict
	free := Node{OS: "linux",
		Allocatable: list("cpu", "2", "memory", "1Gi", "pods", "3", "ephemeral-storage", "1Gi", "example.com/fake",
			"1"),
		Object: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "ssd"}}}}
	tainted, groups, strictNode := free, free, free
	strictNode.Sysctls, strictNode.NoAppArmor = NewSysctls("6.1", nil), true
	tainted.Object = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1.NodeSpec{Taints: []v1.Taint{
		{Key: "soft", Effect: v1.TaintEffectNoSchedule}, {Key: "out", Value: "x", Effect: v1.TaintEffectNoExecute}}}}
	groups.Object = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: v1.NodeStatus{Features: &v1.NodeFeatures{SupplementalGroupsPolicy: &yes}}}
	declaring := free
	declaring.Features = []string{"RestartAllContainersOnContainerExits"}
	resets := with(asking(), func(p *v1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{
			{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	})
	groupPod := with(asking(),
		func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict} })
	for _, c := range []struct {
		name   string
		pod    *v1.Pod
		facts  Node
		others []*v1.Pod
		reason string
		text   string
	}{

		{"fits", asking("cpu", "2", "memory", "1Gi", "example.com/fake", "1"), free, nil, "", ""},
		{"sysctl of the node", with(asking(), func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "vm.swappiness", Value: "1"}}}
		}), strictNode, nil, "SysctlForbidden", `forbidden sysctl: "vm.swappiness" not allowlisted`},
		{"AppArmor without the kernel's", with(asking(), func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{
				AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
		}), strictNode, nil, "AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		{"no AppArmor wanted", with(asking(), func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{
				AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
				AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}}
		}), strictNode, nil, "", ""},
		{"label of another system",
			with(asking(), func(p *v1.Pod) { p.Labels = map[string]string{"kubernetes.io/os": "windows"} }), free, nil,
			"PodOSSelectorNodeLabelDoesNotMatch",
			"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
		{"another system", with(asking(), func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }), free, nil,
			"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"},
		{"strict groups", groupPod, free, nil, "SupplementalGroupsPolicyNotSupported",
			"SupplementalGroupsPolicy=Strict is not supported in this node"},
		{"strict groups that are supported", groupPod, groups, nil, "", ""},
		{"cpu", asking("cpu", "1500m"), free, []*v1.Pod{asking("cpu", "600m")},
			"OutOfcpu", "Node didn't have enough resource: cpu, requested: 1500, used: 600, capacity: 2000"},
		{"memory", asking("memory", "2Gi"), free, nil, "OutOfmemory",
			"Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"},
		{"disk", asking("ephemeral-storage", "2Gi"), free, nil, "OutOfephemeral-storage",
			"requested: 2147483648, used: 0, capacity: 1073741824"},
		{"pods", asking(), free, []*v1.Pod{asking("cpu", "1m"), asking("cpu", "2m"), asking("cpu", "3m")},
			"OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		{"extended resource", asking("example.com/fake", "1"), free, []*v1.Pod{asking("example.com/fake", "1")},
			"OutOfexample.com/fake",
			"Node didn't have enough resource: example.com/fake, requested: 1, used: 1, capacity: 1"},
		{"extended resource of the cluster", asking("example.com/other", "1"), free, nil, "", ""},
		{"extended resource of a claim", claiming(asking("example.com/fake", "2"), "example.com/fake"), free, nil, "",
			""},
		{"extended resource that a pod has by a claim", asking("example.com/fake", "1"), free,
			[]*v1.Pod{claiming(asking("example.com/fake", "1"), "example.com/fake")}, "", ""},
		{"extended resource beside one of a claim", claiming(asking("example.com/fake", "2"), "example.com/other"),
			free, nil,
			"OutOfexample.com/fake", "requested: 2, used: 0, capacity: 1"},
		{"overhead counts", with(asking("cpu", "1500m"), func(p *v1.Pod) { p.Spec.Overhead = list("cpu", "600m") }),
			free, nil, "OutOfcpu", "requested: 2100"},
		{"resources before affinity",
			with(asking("cpu", "3"), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }), free,
			nil, "OutOfcpu", ""},
		{"selector", with(asking(), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }), free,
			nil,
			"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		{"selector that matches",
			with(asking(), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), free, nil, "",
			""},
		{"another node", with(asking(), func(p *v1.Pod) { p.Spec.NodeName = "m" }), free, nil,
			"NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"},
		{"port", port("", 80, v1.ProtocolTCP), free, []*v1.Pod{port("10.0.0.1", 80, v1.ProtocolTCP)},
			"NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"},
		{"port of another address", port("10.0.0.2", 80, v1.ProtocolTCP), free,
			[]*v1.Pod{port("10.0.0.1", 80, v1.ProtocolTCP)}, "", ""},
		{"port of another protocol", port("", 80, v1.ProtocolUDP), free, []*v1.Pod{port("", 80, v1.ProtocolTCP)}, "",
			""},
		{"port of a sidecar", port("", 80, v1.ProtocolTCP), free, []*v1.Pod{with(asking(), func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{RestartPolicy: &always,
				Ports: []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP}}}}
		})}, "NodePorts", ""},
		{"taint", asking(), tainted, nil, "TaintToleration",
			"Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"},
		{"taint and static pod", with(asking(),
			func(p *v1.Pod) { p.Annotations = map[string]string{desired.SourceAnnotation: "file"} }),
			tainted, nil, "", ""},
		{"a feature that the node does not declare", resets, free, nil, "PodFeatureUnsupported",
			"Pod requires node features that are not available: RestartAllContainersOnContainerExits"},
		{"a feature that it declares", resets, declaring, nil, "", ""},
		{"taint that is tolerated", with(asking(), func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "out", Operator: v1.TolerationOpExists}}
		}), tainted, nil, "", ""},
	} {

		var others []claim
		for _, o := range c.others {
			others = append(others, claimOf(o))
		}
		got := check(c.pod, claimOf(c.pod), c.facts, others)
		switch {
		case got == nil && c.reason == "":
		case got == nil || got.Reason != c.reason || !strings.Contains(got.Message, c.text):
			t.Errorf("%s: %+v, want %s: %s", c.name, got, c.reason, c.text)
		}
	}
}

// TestAdmitterHolds: a pod holds what it asked for until it is released, and one that already runs is never refused.
func TestAdmitterHolds(t *testing.T) {
	f := Node{OS: "linux", Object: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		Allocatable: list("cpu", "1", "pods", "9")}
	m := New()
	first, second := asking("cpu", "1"), asking("cpu", "600m")
	if r := m.Admit(first, f, false); r != nil {
		t.Fatalf("the first pod: %+v", r)
	}
	if r := m.Admit(first, f, false); r != nil {
		t.Errorf("the first pod again, which counted itself: %+v", r)
	}
	if r := m.Admit(second, f, false); r == nil || r.Reason != "OutOfcpu" {
		t.Errorf("the second pod: %+v", r)
	}
	if r := m.Admit(second, f, true); r != nil {
		t.Errorf("a pod that runs was refused: %+v", r)
	}
	m.Release(second.UID)
	m.Release(first.UID)
	if r := m.Admit(second, f, false); r != nil {
		t.Errorf("after the release: %+v", r)
	}
}
