package env

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ptr[T any](v T) *T { return &v }

func inputs(c v1.Container) Inputs {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u",
		Labels:      map[string]string{"b": "2", "a": `x"y`},
		Annotations: map[string]string{"example.com/Ann": "n"}},
		Spec: v1.PodSpec{NodeName: "n1", ServiceAccountName: "sa", Containers: []v1.Container{c}}}
	absent := errors.Join(errors.New("it is not there"), ErrNotFound)
	return Inputs{Pod: p, Container: &p.Spec.Containers[0], PodIPs: []string{"10.0.0.1", "fd00::1"},
		HostIPs: []string{"192.168.0.1"},
		NodeAllocatable: v1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("2Gi"),
			"ephemeral-storage": resource.MustParse("10G")},
		ConfigMap: func(name string) (*v1.ConfigMap, error) {
			if name != "cm" {
				return nil, absent
			}
			return &v1.ConfigMap{Data: map[string]string{"k": "cm-v", "k.2": "v2"}}, nil
		},
		Secret: func(name string) (*v1.Secret, error) {
			if name != "s" {
				return nil, absent
			}
			return &v1.Secret{Data: map[string][]byte{"k": []byte("s-v")}}, nil
		}}
}

func field(path string) *v1.EnvVarSource {
	return &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
}

func amount(res, divisor, container string) *v1.EnvVarSource {
	r := &v1.ResourceFieldSelector{Resource: res, ContainerName: container}
	if divisor != "" {
		r.Divisor = resource.MustParse(divisor)
	}
	return &v1.EnvVarSource{ResourceFieldRef: r}
}

func configKey(name, key string, optional bool) *v1.EnvVarSource {
	return &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func TestSources(t *testing.T) {
	c := v1.Container{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("33554433")},
		Limits:   v1.ResourceList{"memory": resource.MustParse("64Mi"), "cpu": resource.MustParse("0")}}}

	for _, x := range []struct {
		from       *v1.EnvVarSource
		want, fail string
	}{
		{from: field("metadata.name"), want: "p"}, {from: field("metadata.uid"), want: "u"},
		{from: field("spec.nodeName"), want: "n1"},
		{from: field("spec.serviceAccountName"), want: "sa"}, {from: field("status.hostIP"), want: "192.168.0.1"},
		{from: field("status.hostIPs"), want: "192.168.0.1"},
		{from: field("status.podIP"), want: "10.0.0.1"}, {from: field("status.podIPs"), want: "10.0.0.1,fd00::1"},
		{from: field("metadata.labels['a']"), want: `x"y`},
		{from: field("metadata.annotations['example.com/Ann']"), want: "n"},
		{from: field("metadata.labels"), want: "a=\"x\\\"y\"\nb=\"2\""},
		{from: field("metadata.labels['no such']"), fail: "invalid key subscript"},
		{from: field("metadata.name['a']"), fail: "does not support subscript"},
		{from: field("spec.hostname"), fail: "unsupported fieldPath: spec.hostname"},
		{from: amount("requests.cpu", "", ""), want: "1"}, {from: amount("requests.cpu", "1m", "c"), want: "250"},
		{from: amount("requests.memory", "1Mi", "c"), want: "33"},
		{from: amount("limits.memory", "", "c"), want: "67108864"},
		// not set: the node's
		{from: amount("limits.cpu", "", "c"), want: "4"}, {from: amount("limits.cpu", "1m", "c"), want: "3500"},
		{from: amount("limits.ephemeral-storage", "1M", "c"), want: "10000"},
		{from: amount("limits.hugepages-2Mi", "", "c"), want: "0"},
		{from: amount("limits.gpu", "", "c"), fail: "unsupported container resource : limits.gpu"},
		{from: amount("cpu", "", "c"), fail: "unsupported"},
		{from: amount("limits.cpu", "", "other"), fail: "container other not found"},
		{from: amount("limits.cpu", "-1", "c"), fail: "not positive"},
		{from: configKey("cm", "k", false), want: "cm-v"},
		{from: configKey("cm", "none", false), fail: "couldn't find key none in ConfigMap ns/cm"},
		{from: configKey("cm", "none", true), want: "unset"}, {from: configKey("none", "k", true), want: "unset"},
		{from: configKey("none", "k", false), fail: "it is not there"},
	} {
		c.Env = []v1.EnvVar{{Name: "X", ValueFrom: x.from}}
		vars, err := Container(inputs(c))
		got := "unset"
		if len(vars) == 1 {
			got = vars[0].Value
		}
		if x.fail != "" && (err == nil || !strings.Contains(err.Error(), x.fail)) ||
			x.fail == "" && (err != nil || got != x.want) {
			t.Errorf("%+v: %q %v, want %q or failure %q", x.from, got, err, x.want, x.fail)
		}
	}
}

func TestLimitOfThePodGoesBeforeTheNodes(t *testing.T) {
	in := inputs(v1.Container{Name: "c"})
	in.Pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"memory": resource.MustParse("1Gi")}}
	got, err := ResourceField(in.Pod, in.Container, amount("limits.memory", "1Mi", "").ResourceFieldRef,
		in.NodeAllocatable)
	if err != nil || got != "1024" {
		t.Errorf("%s %v", got, err)
	}
}

func TestOrder(t *testing.T) {
	c := v1.Container{Name: "c", EnvFrom: []v1.EnvFromSource{
		{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}},
		{Prefix: "p-", SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}},
		{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"},
			Optional: ptr(true)}}},
		Env: []v1.EnvVar{{Name: "k", Value: "mine"},
			{Name: "A", Value: "$(k)-$(WEB_SERVICE_HOST)-$(p-k)-$$(k)-$(LATER)"}, {Name: "LATER", Value: "x"},
			{Name: "KUBERNETES_PORT", Value: "own"}, {Name: "EMPTY"}}}
	in := inputs(c)
	service := func(ns, name, ip string, ports ...v1.ServicePort) *v1.Service {
		return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
	}
	in.Services = []*v1.Service{service("default", "kubernetes", "10.96.0.1", v1.ServicePort{Name: "https", Port: 443}),
		service("ns", "web", "10.96.0.2", v1.ServicePort{Port: 80, Protocol: v1.ProtocolUDP}),
		service("ns", "headless", "None", v1.ServicePort{Port: 1}),
		service("other", "far", "10.96.0.3", v1.ServicePort{Port: 1})}

	for _, links := range []bool{true, false} {
		in.Pod.Spec.EnableServiceLinks = &links
		vars, err := Container(in)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, v := range vars {
			if _, twice := got[v.Name]; twice {
				t.Errorf("%s is there twice", v.Name)
			}
			got[v.Name] = v.Value
		}

		want := map[string]string{"k": "mine", "k.2": "v2", "p-k": "s-v", "LATER": "x", "EMPTY": "",
			"KUBERNETES_PORT":         "own",
			"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
			"KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
			"A":                       "mine-10.96.0.2-s-v-$(k)-$(LATER)", "WEB_PORT_80_UDP_PROTO": "udp"}
		if !links {
			want["A"] = "mine-$(WEB_SERVICE_HOST)-s-v-$(k)-$(LATER)"
			delete(want, "WEB_PORT_80_UDP_PROTO")
		}
		for name, value := range want {
			if v, ok := got[name]; !ok || v != value {
				t.Errorf("links %v: %s=%q, want %q", links, name, v, value)
			}
		}

		for _, name := range []string{"HEADLESS_SERVICE_HOST", "FAR_SERVICE_HOST"} {
			if v, there := got[name]; there {
				t.Errorf("%s=%q should not be there", name, v)
			}
		}
		if _, there := got["WEB_SERVICE_HOST"]; there != links {
			t.Errorf("links %v, but WEB_SERVICE_HOST there: %v", links, there)
		}
	}
}

func TestExpand(t *testing.T) {
	known := func(n string) (string, bool) {
		v, ok := map[string]string{"A": "1", "B": "$(A)", "": "empty"}[n]
		return v, ok
	}
	for in, want := range map[string]string{"$(A)": "1", "$(B)": "$(A)", "$$(A)": "$(A)", "$$$(A)": "$1",
		"$(X)": "$(X)", "$(A": "$(A", "$": "$", "a$b": "a$b",
		"$()": "empty", "$(A)$(A)": "11", "$($(A))": "$($(A))", "$((A))": "$((A))", "é$(A)é": "é1é"} {
		if got := Expand(in, known); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if _, err := ExpandStrict("x$(A)$(X)$(Y)", known); err == nil || !strings.Contains(err.Error(), `"X"`) {
		t.Errorf("an unknown name: %v", err)
	}
	if got, err := ExpandStrict("$$(X)", known); err != nil || got != "$(X)" {
		t.Errorf("an escaped name: %q %v", got, err)
	}
}

// the longest text that a pod may have takes no noticeable time
func TestExpandMany(t *testing.T) {
	text := strings.Repeat("$(", 1<<20)
	done := make(chan string, 1)
	go func() { done <- Expand(text, func(string) (string, bool) { return "", false }) }()
	select {
	case got := <-done:
		if got != text {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
	case <-time.After(30 * time.Second):
		t.Error("it takes longer than 30 s")
	}
}

// FuzzExpand: text without a dollar sign does not change, doubling all dollar signs returns the text, and values that
// were inserted are not expanded.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"$(A)", "$$(A)", "$(A", "$", "é$(A)", "$(;`rm -rf /`)", "\x00$("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return // what is looked for below would take long
		}

		asked := 0
		out := Expand(text, func(name string) (string, bool) {
			if asked++; strings.Contains(name, ")") || !strings.Contains(text, "$("+name+")") {
				t.Fatalf("asked for %q, which %q does not name", name, text)
			}
			return "$(A)", true
		})
		if !strings.Contains(text, "$") && out != text {
			t.Fatalf("%q became %q", text, out)
		}
		if utf8.ValidString(text) && !utf8.ValidString(out) {
			t.Fatalf("%q became %q, which is not text", text, out)
		}
		if asked > strings.Count(text, "$(") {
			t.Fatalf("%q asked for %d names", text, asked)
		}

		never := func(string) (string, bool) { t.Fatal("asked although all is escaped"); return "", false }
		if back := Expand(strings.ReplaceAll(text, "$", "$$"), never); back != text {
			t.Fatalf("%q escaped becomes %q", text, back)
		}
	})
}

// TestManyServices: the variables of 1,000 services take 360 KB, as some clusters have. All are there, and that takes
// a time that grows with their number only.
func TestManyServices(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	var services []*v1.Service
	const n = 1000
	for i := range n {
		services = append(services,
			&v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-service-with-a-long-name-%04d", i),
				Namespace: "ns"},
				Spec: v1.ServiceSpec{ClusterIP: "10.96.0.10",
					Ports: []v1.ServicePort{{Name: "http", Port: 80, Protocol: v1.ProtocolTCP}}}})
	}
	container := &v1.Container{Name: "c",
		Env: []v1.EnvVar{{Name: "LAST", Value: "$(A_SERVICE_WITH_A_LONG_NAME_0999_SERVICE_HOST)"}}}
	vars, err := Container(Inputs{Pod: pod, Container: container, Services: services})
	if err != nil {
		t.Fatal(err)
	}
	bytes, last := 0, ""
	for _, v := range vars {
		if bytes += len(v.Name) + len(v.Value) + 2; v.Name == "LAST" {
			last = v.Value
		}
	}
	if bytes < 360_000 || len(vars) != 8*n+1 || last != "10.96.0.10" {
		t.Errorf("%d variables of %d bytes, the last is %q", len(vars), bytes, last)
	}
}
