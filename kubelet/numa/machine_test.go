package numa

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/utils/cpuset"
)

// twoSockets is a machine as Linux numbers them: two sockets, each one node of four cores of two threads. Processor
// n+8 is the second thread of n.
func twoSockets() fstest.MapFS {
	sys := fstest.MapFS{}
	put := func(path, text string) { sys["devices/system/"+path] = &fstest.MapFile{Data: []byte(text + "\n")} }
	put("cpu/online", "0-15")
	put("node/online", "0-1")
	for cpu := range 16 {
		put(fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", cpu), fmt.Sprint(cpu%8/4))
		put(fmt.Sprintf("cpu/cpu%d/topology/thread_siblings_list", cpu), fmt.Sprintf("%d,%d", cpu%8, cpu%8+8))
	}
	for node, near := range []string{"0-3,8-11", "4-7,12-15"} {
		dir := fmt.Sprintf("node/node%d/", node)
		put(dir+"cpulist", near)
		put(dir+"meminfo", fmt.Sprintf("Node %d MemTotal:       1048576 kB\nNode %d MemFree:        6341056 kB", node,
			node))
		put(dir+"distance", []string{"10 21", "21 10"}[node])
		put(dir+"hugepages/hugepages-2048kB/nr_hugepages", fmt.Sprint(8*node))
	}
	return sys
}

func machine(t *testing.T) *Machine {
	t.Helper()
	m, err := Read(twoSockets(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestReadMachine(t *testing.T) {
	m := machine(t)
	if got := m.CPUs[13]; got != (Place{Node: 1, Socket: 1, Cache: 1, Core: 5}) || m.PerCore() != 2 ||
		m.All().String() != "0-15" {
		t.Errorf("%+v, %d, %s", got, m.PerCore(), m.All())
	}
	if len(m.Nodes) != 2 || m.Nodes[1].Memory != 1<<30 || m.Nodes[1].HugePages[2<<20] != 8 ||
		fmt.Sprint(m.Nodes[0].Distances) != "[10 21]" {
		t.Errorf("%+v", m.Nodes)
	}
	if got := m.Cores(cpuset.New(0, 12)).String(); got != "0,4,8,12" {
		t.Errorf("cores: %s", got)
	}

	plain := twoSockets()
	for path := range plain {
		if strings.HasPrefix(path, "devices/system/node") {
			delete(plain, path)
		}
	}
	if m, err := Read(plain, 5); err != nil || len(m.Nodes) != 1 || m.Nodes[0].Memory != 5 {
		t.Errorf("without NUMA: %+v, %v", m, err)
	}
	broken := twoSockets()
	broken["devices/system/node/node1/meminfo"].Data = []byte("nothing")
	if _, err := Read(broken, 0); err == nil || !strings.Contains(err.Error(), "NUMA node 1") {
		t.Errorf("a node without memory: %v", err)
	}
}

// TestReadThisMachine reads the machine that the test runs on.
func TestReadThisMachine(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/cpu/online"); err != nil {
		t.Skip("no sysfs: ", err)
	}
	m, err := Read(os.DirFS("/sys"), 1)
	if err != nil || m.All().IsEmpty() || len(m.Nodes) == 0 || m.Nodes[0].Memory == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
}

// TestReadCaches: a cache counts that several processors of a node have together, but not all.
func TestReadCaches(t *testing.T) {
	sys := twoSockets()
	for cpu := range 16 {
		for level, shared := range map[int]string{2: fmt.Sprintf("%d,%d", cpu%8, cpu%8+8),
			3: fmt.Sprintf("%[1]d-%[2]d,%[3]d-%[4]d", cpu%8/2*2, cpu%8/2*2+1, cpu%8/2*2+8, cpu%8/2*2+9),
			4: []string{"0-3,8-11", "4-7,12-15"}[cpu%8/4]} {
			for name, text := range map[string]string{"level": fmt.Sprint(level), "id": fmt.Sprint(10 + cpu%8/2),
				"shared_cpu_list": shared} {
				sys[fmt.Sprintf("devices/system/cpu/cpu%d/cache/index%d/%s", cpu, level,
					name)] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
		}
	}
	m, err := Read(sys, 0)
	if err != nil || m.CPUs[0].Cache != 10 || m.CPUs[15].Cache != 13 {
		t.Errorf("%+v %+v, error %v", m.CPUs[0], m.CPUs[15], err)
	}
	delete(sys, "devices/system/cpu/cpu15/cache/index3/id")
	if m, err = Read(sys, 0); err != nil || m.CPUs[15].Cache != 1 {
		t.Errorf("a cache without a number: %+v, error %v", m.CPUs[15], err)
	}
}

// TestTake: the sets that upstream's takeByTopology chooses on this machine.
func TestTake(t *testing.T) {
	m := machine(t)
	for _, c := range []struct {
		name, used string
		n          int
		want       string
	}{
		{"one", "", 1, "0"},
		{"a core", "", 2, "0,8"},
		{"a core and a half", "", 3, "0-1,8"},
		{"what others broke up goes first for single ones", "8", 1, "0"},
		{"a whole core where fewer are free", "4,12", 2, "5,13"},
		{"a socket", "", 8, "0-3,8-11"},
		{"a socket and more", "0", 10, "1,4-7,9,12-15"},
		{"all", "", 16, "0-15"},
		{"none", "", 0, ""},
		{"across sockets", "0-2,8-10,4-6,12-14", 4, "3,7,11,15"},
		{"single threads only", "0-7", 3, "8-10"},
	} {
		used, _ := cpuset.Parse(c.used)
		got, err := Take(m, m.All().Difference(used), c.n, false)
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}

	if _, err := Take(m, cpuset.New(1, 2), 3, false); err == nil ||
		err.Error() != "not enough cpus available to satisfy request: requested=3, available=2" {
		t.Error(err)
	}
}

// TestTakeManyNodesPerSocket: the socket is the wider group here.
func TestTakeManyNodesPerSocket(t *testing.T) {
	m := &Machine{CPUs: map[int]Place{}}
	for cpu := range 8 {
		m.CPUs[cpu] = Place{Node: cpu / 2, Socket: cpu / 4, Core: cpu}
	}
	for n := range 4 {
		m.Nodes = append(m.Nodes, Node{ID: n})
	}
	for _, c := range []struct {
		used string
		n    int
		want string
	}{{"", 4, "0-3"}, {"0", 3, "1-3"}, {"0,4", 2, "2-3"}, {"0", 1, "1"}} {
		used, _ := cpuset.Parse(c.used)
		if got, err := Take(m, m.All().Difference(used), c.n, false); err != nil || got.String() != c.want {
			t.Errorf("%d of all but %s: %s, %v; want %s", c.n, c.used, got, err, c.want)
		}
	}
}
