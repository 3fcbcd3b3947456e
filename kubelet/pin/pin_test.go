package pin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"porthole.dev/porthole/kubelet/numa"
)

// twoSockets is a machine of two sockets, each one node of four cores of two threads and 1 GiB; n+8 is the second
// thread of n. The second node has 8 huge pages.
func twoSockets() *numa.Machine {
	m := &numa.Machine{CPUs: map[int]numa.Place{}}
	for cpu := range 16 {
		m.CPUs[cpu] = numa.Place{Node: cpu % 8 / 4, Socket: cpu % 8 / 4, Core: cpu % 8}
	}
	for n := range 2 {
		m.Nodes = append(m.Nodes,
			numa.Node{ID: n, Memory: 1 << 30, HugePages: map[uint64]uint64{2 << 20: uint64(8 * n)}})
	}
	return m
}

// static are the options of both policies, with one processor and 100 MiB of each node reserved.
func static(t *testing.T) Options {
	quantity := resource.MustParse("100Mi")
	kept := v1.ResourceList{v1.ResourceMemory: quantity}
	return Options{Dir: t.TempDir(), Machine: twoSockets(), CPUPolicy: "static", MemoryPolicy: "Static",
		ReservedMemory: []v1beta1.MemoryReservation{{NumaNode: 0, Limits: kept}, {NumaNode: 1, Limits: kept}},
		Reserved: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"),
			v1.ResourceMemory: resource.MustParse("200Mi")}}
}

func start(t *testing.T, o Options) *Manager {
	t.Helper()
	if o.Alive == nil {
		o.Alive = func(types.UID) (bool, bool) { return true, true }
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// one is a container that asks for cpu and memory; kind is "", init or sidecar.
type one struct{ name, kind, cpu, memory string }

func pod(uid string, containers ...one) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed}}
	always := v1.ContainerRestartPolicyAlways
	for _, o := range containers {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(o.cpu),
			v1.ResourceMemory: resource.MustParse(o.memory)}
		c := v1.Container{Name: o.name, Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
		switch o.kind {
		case "":
			p.Spec.Containers = append(p.Spec.Containers, c)
		case "sidecar":
			c.RestartPolicy = &always
			fallthrough
		default:
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	return p
}

// admit gives a pod all, near to the nodes that policy finds for each container.
func admit(m *Manager, policy string, p *v1.Pod) error {
	r := m.Begin(p)
	for _, c := range containersOf(p) {
		near := numa.Hint{}
		if policy != numa.PolicyNone {
			var ok bool
			if near, ok = (numa.Policy{Name: policy, Machine: m.o.Machine}).Merge(r.Hints(c)); !ok {
				r.Abort()
				return fmt.Errorf("no place for %s", c.Name)
			}
		}
		if err := r.Allocate(context.Background(), c, near); err != nil {
			r.Abort()
			return err
		}
	}
	return r.Commit(context.Background())
}

// places says where the containers of a pod run: processors@memory nodes.
func places(m *Manager, p *v1.Pod) string {
	var out []string
	for _, c := range containersOf(p) {
		at := m.Of(p.UID, c.Name)
		out = append(out, at.CPUs+"@"+at.Mems)
	}
	return strings.Join(out, " ")
}

// TestGive: who gets what, one pod after another.
func TestGive(t *testing.T) {
	fraction, burst, whole := pod("fraction", one{"a", "", "1500m", "1Mi"}), pod("burst",
		one{"a", "", "2", "1Mi"}), pod("whole", one{"a", "", "2", "1Mi"})
	burst.Status.QOSClass = v1.PodQOSBurstable
	whole.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
		Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}}
	for _, c := range []struct {
		name, policy string
		pods         []*v1.Pod
		want         string // of the last pod, or its error
	}{
		{"a whole core", "none", []*v1.Pod{pod("p", one{"a", "", "2", "1Mi"})}, "1,9@0"},
		{"not a whole number", "none", []*v1.Pod{fraction}, "0-15@0"},
		{"not Guaranteed", "none", []*v1.Pod{burst}, "0-15@"},
		{"resources of the pod as a whole", "none", []*v1.Pod{whole}, "0-15@"},
		{"the others share the rest", "none",
			[]*v1.Pod{pod("p", one{"a", "", "2", "1Mi"}), pod("q", one{"a", "", "4", "1Mi"}), burst}, "0,4-7,8,12-15@"},
		{"init containers pass theirs on", "none",
			[]*v1.Pod{pod("p", one{"i", "init", "2", "1Mi"}, one{"a", "", "2", "1Mi"})}, "1,9@0 1,9@0"},
		{"sidecars do not", "none", []*v1.Pod{pod("p", one{"s", "sidecar", "2", "1Mi"}, one{"a", "", "2", "1Mi"})},
			"1,9@0 2,10@0"},
		{"more than there are", "none", []*v1.Pod{pod("p", one{"a", "", "16", "1Mi"})},
			"not enough cpus available to satisfy request: requested=16, available=15"},
		{"on one node with the memory", "single-numa-node",
			[]*v1.Pod{pod("p", one{"a", "", "2", "800Mi"}), pod("q", one{"a", "", "2", "800Mi"})}, "4,12@1"},
		{"neither has room", "single-numa-node",
			[]*v1.Pod{pod("p", one{"a", "", "6", "800Mi"}), pod("q", one{"a", "", "2", "800Mi"}),
				pod("r", one{"a", "", "2", "200Mi"})},
			"[memorymanager] failed to find NUMA nodes to extend the current topology hint"},
		{"processors only apart", "single-numa-node",
			[]*v1.Pod{pod("p", one{"a", "", "6", "1Mi"}), pod("q", one{"a", "", "6", "1Mi"}),
				pod("r", one{"a", "", "3", "1Mi"})}, "no place for a"},
		{"memory of both", "restricted", []*v1.Pod{pod("p", one{"a", "", "2", "1200Mi"})}, "no place for a"},
		{"memory of both where it may be", "best-effort", []*v1.Pod{pod("p", one{"a", "", "2", "1200Mi"})}, "1,9@0,1"},
		{"a node that has its own does not spread", "none",
			[]*v1.Pod{pod("p", one{"a", "", "1", "1Mi"}), pod("q", one{"a", "", "1", "1200Mi"})},
			"[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"},
		{"processors from the other node too", "best-effort",
			[]*v1.Pod{pod("p", one{"a", "", "8", "1Mi"}), pod("q", one{"a", "", "7", "1Mi"})}, "1-3,8-11@0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := start(t, static(t))
			last := c.pods[len(c.pods)-1]
			for _, p := range c.pods {
				err := admit(m, c.policy, p)
				if err != nil && (p != last || err.Error() != c.want) {
					t.Errorf("pod %s: %v", p.UID, err)
				}
				if err != nil {
					if m.Exclusive(p.UID, "a").Size() > 0 || len(m.Memory(p.UID, "a")) > 0 {
						t.Error("a pod that was refused has something")
					}
					return
				}
			}
			got := places(m, last)
			if want, _ := cpuset.Parse(strings.Split(c.want, "@")[0]); len(containersOf(last)) == 1 &&
				want.String()+"@"+strings.Split(c.want, "@")[1] != got || len(containersOf(last)) > 1 && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}

			again := start(t, m.o)
			if now := places(again, last); now != got {
				t.Errorf("after a restart: %s, before %s", now, got)
			}
			for _, p := range c.pods {
				again.Release(p.UID)
			}
			if now := again.Of("other", "a").CPUs; now != "0-15" {
				t.Errorf("when all are gone: %s", now)
			}
			if _, free, _ := again.Counts(); free != 0 {
				t.Errorf("%d processors are left to nobody", free)
			}
		})
	}
}

// TestWholeCores: with full-pcpus-only, nobody shares a core.
func TestWholeCores(t *testing.T) {
	for want, cpu := range map[string]string{
		"SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2":                                                     "3",
		"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 14, requested CPUs = 16, CPUs per core = 2": "16",
		"": "14",
	} {
		o := static(t)
		o.CPUOptions = map[string]string{"full-pcpus-only": "true"}
		m := start(t, o)
		err := admit(m, "none", pod("p", one{"a", "", cpu, "1Mi"}))
		if want == "" && (err != nil || m.Of("p", "a").CPUs != "1-7,9-15") ||
			want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, %s", cpu, err, m.Of("p", "a").CPUs)
		}
		if r, ok := err.(interface{ Reason() string }); err != nil && (!ok || r.Reason() != "SMTAlignmentError") {
			t.Errorf("%s: the error has no reason", cpu)
		}
	}

	o := static(t)
	o.CPUOptions = map[string]string{"strict-cpu-reservation": "true"}
	o.ReservedCPUs = cpuset.New(7)
	if got := start(t, o).Of("p", "a").CPUs; got != "0-6,8-15" {
		t.Errorf("shared where reserved is reserved: %s", got)
	}
}

// TestOneCache: with prefer-align-cpus-by-uncorecache, a container has the processors of one cache if one has enough.
func TestOneCache(t *testing.T) {
	for value, want := range map[string]string{"true": "2-3,10-11", "false": "1-2,9-10"} {
		o := static(t)
		for id, p := range o.Machine.CPUs {
			p.Cache = p.Core / 2
			o.Machine.CPUs[id] = p
		}
		o.CPUOptions = map[string]string{"prefer-align-cpus-by-uncorecache": value}
		m := start(t, o)
		if err := admit(m, "none", pod("p", one{"a", "", "4", "1Mi"})); err != nil || m.Of("p", "a").CPUs != want {
			t.Errorf("%s: %s, want %s; error %v", value, m.Of("p", "a").CPUs, want, err)
		}
	}
}

// TestHugePages: a container has its huge pages from the node that has them, and what they hold is no memory for
// others.
func TestHugePages(t *testing.T) {
	m := start(t, static(t))
	p := pod("p", one{"a", "", "1", "10Mi"})
	huge := p.Spec.Containers[0].Resources.Requests
	huge["hugepages-2Mi"] = resource.MustParse("8Mi")
	if err := admit(m, "single-numa-node", p); err != nil || m.Of("p", "a") != (Place{"4", "1", true}) {
		t.Errorf("%v, %+v", err, m.Of("p", "a"))
	}
	_, free := m.ForPods()
	if got := fmt.Sprint(free); got != fmt.Sprintf("[{memory [0] %d} {hugepages-2Mi [1] %d} {memory [1] %d}]", 924<<20,
		16<<20, (924-16)<<20) {
		t.Error(got)
	}
	huge["hugepages-2Mi"] = resource.MustParse("12Mi")
	if err := admit(m, "single-numa-node", pod("q", one{"a", "", "1", "10Mi"})); err != nil {
		t.Error(err)
	}
	p.UID = "r"
	if err := admit(m, "single-numa-node", p); err == nil {
		t.Error("there were no huge pages for it")
	}
}

// TestGone: what pods have that are gone is for others, unless not all pods are known.
func TestGone(t *testing.T) {
	o := static(t)
	alive, complete := true, false
	m := start(t, o)
	m.o.Alive = func(uid types.UID) (bool, bool) { return alive || uid != "old", complete }
	for _, step := range []struct {
		uid             string
		alive, complete bool
		ok              bool
	}{{"old", true, true, true}, {"new", true, true, false}, {"new", false, false, false}, {"new", false, true, true}} {
		alive, complete = step.alive, step.complete
		if err := admit(m, "none", pod(step.uid, one{"a", "", "12", "1Mi"})); (err == nil) != step.ok {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

// TestRefusedStart: what configuration and checkpoints stop the kubelet, in upstream's words.
func TestRefusedStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"unknown policy":        {func(o *Options) { o.CPUPolicy = "dynamic" }, `unknown policy: "dynamic"`},
		"unknown memory policy": {func(o *Options) { o.MemoryPolicy = "BestEffort" }, `unknown policy: "BestEffort"`},
		"nothing reserved": {func(o *Options) { delete(o.Reserved, v1.ResourceCPU) },
			"[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"},
		"more reserved than there is": {func(o *Options) { o.Reserved[v1.ResourceCPU] = resource.MustParse("17") },
			"unable to reserve the required amount of CPUs (size of  did not equal 17)"},
		"options of none": {func(o *Options) {
			o.CPUPolicy, o.CPUOptions = "none", map[string]string{"x": "y"}
		}, "None policy: received unsupported options=map[x:y]"},
		"alpha": {func(o *Options) {
			o.CPUOptions = map[string]string{"align-by-socket": "true"}
		}, `Alpha-level Options not enabled, but option "align-by-socket" provided`},
		"not a choice": {func(o *Options) {
			o.CPUOptions = map[string]string{"full-pcpus-only": "maybe"}
		}, `bad value for option "full-pcpus-only"`},
		"no such node": {func(o *Options) { o.ReservedMemory[1].NumaNode = 4 },
			"the reserved memory configuration references a NUMA node 4 that does not exist on this machine"},
		"another sum": {func(o *Options) { o.Reserved[v1.ResourceMemory] = resource.MustParse("300Mi") },
			`the total amount "200Mi" of type "memory" is not equal to the value "300Mi" determined by Node Allocatable feature`},
		"no sum": {func(o *Options) { o.Reserved["hugepages-2Mi"] = resource.MustParse("2Mi") },
			`the total amount "0" of type "hugepages-2Mi" is not equal to the value "2Mi" determined by Node Allocatable feature`},
		"another policy": {func(o *Options) { o.CPUPolicy = "none" },
			`configured policy "none" differs from state checkpoint policy "static", please drain this node and delete the CPU manager checkpoint file`},
		"another memory policy": {func(o *Options) { o.MemoryPolicy = "None" },
			`[memorymanager] configured policy "None" differs from state checkpoint policy "Static", please drain this node and delete the memory manager checkpoint file`},
		"a processor less": {func(o *Options) { delete(o.Machine.CPUs, 15) },
			`current set of available CPUs "0-14" doesn't match with CPUs in state "0-15"`},
		"reserved and held": {func(o *Options) { o.ReservedCPUs = cpuset.New(1) },
			`not all reserved cpus: "1" are present in defaultCpuSet: "0,2-8,10-15"`},
		"less memory": {func(o *Options) { o.Machine.Nodes[0].Memory-- },
			"[memorymanager] the expected machine state is different from the real one"},
	} {
		t.Run(name, func(t *testing.T) {
			o := static(t)
			if err := admit(start(t, o), "none", pod("p", one{"a", "", "2", "1Mi"})); err != nil {
				t.Fatal(err)
			}
			c.change(&o)
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}

	o := static(t)
	file := filepath.Join(o.Dir, cpuFile)
	if err := os.WriteFile(file, []byte(`{"policyName":"static","defaultCpuSet":"0-3","entries":{"p":{"a":"3"}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil ||
		!strings.Contains(err.Error(), `pod: p, container: a cpuset: "3" overlaps with default cpuset "0-3"`) {
		t.Error(err)
	}
}
