package device

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const gpu = "example.com/gpu"

// devices makes devices of a text: "a b! c" has b unhealthy, "a@1" is near to NUMA node 1.
func devices(text string) []Device {
	var out []Device
	for _, word := range strings.Fields(text) {
		id, bad := strings.CutSuffix(word, "!")
		id, node, near := strings.Cut(id, "@")
		d := Device{ID: id, Healthy: !bad}
		if near {
			var n int64
			_, _ = fmt.Sscan(node, &n)
			d.Nodes = []int64{n}
		}
		out = append(out, d)
	}
	return out
}

// TestChoose: which devices a container gets, and upstream's words for those that it cannot get.
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		listed    string // by the plugin; "-" for a resource without one
		others    string // held by another pod
		have      string // held by the container already
		reuse     string
		number    int
		preferred string
		want      string // devices, "has them", or the error
	}{
		"the first free ones":                  {listed: "a b c", others: "a", number: 2, want: "b c"},
		"what the plugin prefers":              {listed: "a b c d", number: 2, preferred: "d b", want: "d b"},
		"it prefers one only":                  {listed: "a b c d", number: 2, preferred: "d", want: "d a"},
		"it prefers what is taken or unknown":  {listed: "a b c", others: "c", number: 1, preferred: "c x", want: "a"},
		"it prefers one twice":                 {listed: "a b c", number: 2, preferred: "b b", want: "b a"},
		"it prefers more than is asked for":    {listed: "a b c", number: 1, preferred: "c b a", want: "c"},
		"devices of an init container":         {listed: "a b c", others: "a b", reuse: "b", number: 2, want: "b c"},
		"more of an init container than asked": {listed: "a b c", others: "a b", reuse: "a b", number: 1, want: "a"},
		"it has them":                          {listed: "a b", have: "b", number: 1, want: "has them"},
		"it asks for none":                     {listed: "a b", number: 0, want: "has them"},
		"unhealthy ones are not given":         {listed: "a! b", number: 1, want: "b"},
		"too few": {listed: "a b! c", others: "a", number: 2,
			want: "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1"},
		"none healthy": {listed: "a! b!", number: 1,
			want: "no healthy devices present; cannot allocate unhealthy devices example.com/gpu"},
		"its own became unhealthy": {listed: "a! b", have: "a", number: 1,
			want: "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/gpu"},
		"its own is gone": {listed: "b", have: "a", number: 1,
			want: "previously allocated devices are no longer healthy"},
		"another number than before": {listed: "a b", have: "a", number: 2,
			want: `pod "p" container "c" changed request for resource "example.com/gpu" from 1 to 2`},
		"no plugin ever": {listed: "-", number: 1,
			want: "cannot allocate unregistered device example.com/gpu"},
	} {
		table := newTable()
		if c.listed != "-" {
			table.replace(gpu, devices(c.listed))
		}
		table.replace("example.com/other", devices("a b c"))
		table.claims[key{"q", "c", "example.com/other"}] = claim{devices: devices("a b c")}
		if c.others != "" {
			table.claims[key{"q", "c", gpu}] = claim{devices: devices(c.others)}
		}
		me := key{"p", "c", gpu}
		if c.have != "" {
			table.claims[me] = claim{devices: devices(c.have)}
		}

		p, done, err := table.choose(want{key: me, number: c.number, reuse: strings.Fields(c.reuse)})
		got := strings.Join(p.settle(strings.Fields(c.preferred)), " ")
		switch {
		case err != nil:
			got = err.Error()
		case done:
			got = "has them"
		}
		if got != c.want && !(err != nil && c.want != "" && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAmounts: the node's capacity counts unhealthy devices, and those of a plugin that went away for five minutes.
func TestAmounts(t *testing.T) {
	table := newTable()
	begin := time.Unix(1000, 0)
	want := func(when string, now time.Time, capacity, allocatable int64) {
		t.Helper()
		a := table.amounts(now)
		c, al := a.Capacity[gpu], a.Allocatable[gpu]
		if c.Value() != capacity || al.Value() != allocatable {
			t.Errorf("%s: %d of %d, want %d of %d", when, al.Value(), c.Value(), allocatable, capacity)
		}
	}

	table.replace(gpu, devices("a b! c"))
	want("listed", begin, 3, 2)
	table.lose(gpu, begin)
	want("gone", begin.Add(gracePeriod-1), 3, 0)
	want("gone for long", begin.Add(gracePeriod), 0, 0)
	table.replace(gpu, devices("a"))
	want("back", begin.Add(time.Hour), 1, 1)
	if a := table.amounts(begin); len(a.Capacity) != 1 {
		t.Errorf("resources: %v", a.Capacity)
	}
}

// TestLends: init containers lend their devices, sidecars do not.
func TestLends(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	p := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "init"},
		{Name: "side", RestartPolicy: &always}}, Containers: []v1.Container{{Name: "app"}}}}
	var got []string
	for _, c := range containersOf(p) {
		got = append(got, fmt.Sprint(c.Name, lends(p, c)))
	}
	if text := strings.Join(got, " "); text != "inittrue sidefalse appfalse" {
		t.Errorf("lends: %s", text)
	}
}

// TestMerge: of what several plugins give under one name the first counts.
func TestMerge(t *testing.T) {
	got := merge([]*api.ContainerAllocateResponse{
		{Envs: map[string]string{"B": "1", "A": "1"},
			Mounts:      []*api.Mount{{HostPath: "/h", ContainerPath: "/c", ReadOnly: true}},
			Devices:     []*api.DeviceSpec{{HostPath: "/dev/x", ContainerPath: "/dev/x", Permissions: "rw"}},
			Annotations: map[string]string{"k": "1"}, CdiDevices: []*api.CDIDevice{{Name: "v/c=1"}}},
		{Envs: map[string]string{"B": "2", "C": "2"},
			Mounts:      []*api.Mount{{HostPath: "/i", ContainerPath: "/c"}, {HostPath: "/j", ContainerPath: "/d"}},
			Devices:     []*api.DeviceSpec{{HostPath: "/dev/y", ContainerPath: "/dev/x", Permissions: "r"}},
			Annotations: map[string]string{"k": "2", "l": "2"},
			CdiDevices:  []*api.CDIDevice{{Name: "v/c=1"}, {Name: "v/c=2"}}},
	})
	want := "{[{A 1} {B 1} {C 2}] [{/h /c true} {/j /d false}] [{/dev/x /dev/x rw}] map[k:1 l:2] [v/c=1 v/c=2]}"
	if text := fmt.Sprint(got); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestCheckRegistration(t *testing.T) {
	for name, c := range map[string]struct{ version, resource, endpoint, want string }{
		"good": {"v1beta1", gpu, "gpu.sock", ""},
		"another version": {"v1alpha", gpu, "gpu.sock",
			`requested API version "v1alpha" is not supported by kubelet`},
		"no domain":            {"v1beta1", "gpu", "gpu.sock", `the ResourceName "gpu" is invalid`},
		"Kubernetes' own":      {"v1beta1", "kubernetes.io/gpu", "gpu.sock", "is invalid"},
		"below Kubernetes'":    {"v1beta1", "a.kubernetes.io/gpu", "gpu.sock", "is invalid"},
		"a quota":              {"v1beta1", "requests.example.com/gpu", "gpu.sock", "is invalid"},
		"not a name":           {"v1beta1", "example.com/g p u", "gpu.sock", "is invalid"},
		"outside the folder":   {"v1beta1", gpu, "../gpu.sock", "is not a file in the folder"},
		"a path from the root": {"v1beta1", gpu, "/run/gpu.sock", "is not a file in the folder"},
	} {
		err := checkRegistration(&api.RegisterRequest{Version: c.version, ResourceName: c.resource,
			Endpoint: c.endpoint})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// asking makes a pod of which each container asks for a number of GPUs; names that begin with init are init containers.
func asking(uid string, containers ...any) *v1.Pod {
	p := &v1.Pod{}
	p.UID = types.UID(uid)
	for i := 0; i < len(containers); i += 2 {
		c := v1.Container{Name: containers[i].(string),
			Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{gpu: *resource.NewQuantity(int64(containers[i+1].(int)), resource.DecimalSI)}}}
		if strings.HasPrefix(c.Name, "init") {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}
