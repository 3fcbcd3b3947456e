package serve

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/usage"
)

// fixedGroups are cgroups that do not change.
type fixedGroups map[string]usage.Group

func (f fixedGroups) One(path string) (usage.Group, bool) { g, ok := f[path]; return g, ok }

func (f fixedGroups) Trees(_ context.Context, pods string, others ...string) (out []usage.Group) {
	for _, p := range append(others, pods, pods+"/podu1", pods+"/podu1/c1", pods+"/podu1/box1") {
		if g, ok := f[p]; ok {
			out = append(out, g)
		}
	}
	return out
}

// measuredPod is a pod with one container and a sandbox, and what their cgroups use.
func measuredPod() (pod.View, fixedGroups) {
	at := time.Unix(1700000000, 0)
	v := pod.View{SandboxID: "box1", Containers: map[string]pod.ContainerView{"c": {ID: "c1", Running: true}},
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1", Namespace: "ns", Name: "p"},
			Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", Image: `odd"image`,
				ContainerID: "containerd://c1",
				State: v1.ContainerState{
					Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at.Add(-time.Minute))}}}}}}}
	group := func(path string) usage.Group { return usage.Group{Path: path, At: at, Created: at.Add(-time.Hour)} }

	groups := fixedGroups{}
	for _, path := range []string{"/", "/kubepods", "/kubepods/podu1", "/kubepods/podu1/c1", "/kubepods/podu1/box1",
		"/system", "/runtime"} {
		groups[path] = group(path)
	}
	root := groups["/"]
	root.Filesystems = []usage.Filesystem{{Device: "/dev/sda1", Size: 1000, Used: 400, ReadTime: 1500}}
	groups["/"] = root
	c := groups["/kubepods/podu1/c1"]
	c.CPU = usage.CPU{Total: 1.5e9, User: 1e9, System: 5e8, Shares: 2, Period: 100000}
	c.Memory = usage.Memory{Usage: 100, WorkingSet: 80, RSS: 60, Limit: 1000, HasLimits: true, Limited: true,
		OwnFaults: 7, Faults: 7}
	c.Tasks = usage.Tasks{Processes: 1, Threads: 3, Files: 5, Sockets: 2, OpenFiles: 1024, HasOpenFiles: true}
	groups[c.Path] = c

	box := groups["/kubepods/podu1/box1"]
	box.Interfaces = []usage.Interface{{Name: "eth0", RxBytes: 11, TxDropped: 1}}
	groups[box.Path] = box
	all := groups["/kubepods"]
	all.Memory = usage.Memory{Usage: 500, WorkingSet: 400, RSS: 300, Limit: 2000, Limited: true, HasLimits: true,
		Faults: 9}
	all.Pressure = &usage.Pressure{CPU: usage.Waits{Some: usage.Wait{Total: 2e6, Avg10: 1.5}}}
	groups[all.Path] = all
	return v, groups
}

func ofPods(path string) func() string { return func() string { return path } }

func scraped(t *testing.T, o Options, header http.Header) string {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/metrics/cadvisor", nil)
	r.Header = header
	w := httptest.NewRecorder()
	s.containerMetrics(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	body := io.Reader(w.Body)
	if w.Header().Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(w.Body); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// podUsage is a runtime that measures what a container has written, and nothing else.
type podUsage struct{}

func (podUsage) PodStats(context.Context) ([]statsapi.PodStats, error) {
	return []statsapi.PodStats{{PodRef: statsapi.PodReference{UID: "u1", Namespace: "ns", Name: "p"},
		Containers: []statsapi.ContainerStats{{Name: "c", Rootfs: &statsapi.FsStats{UsedBytes: number(4096)}}}}}, nil
}

func (podUsage) ImageFs(context.Context) (*statsapi.FsStats, error) { return &statsapi.FsStats{}, nil }
func (podUsage) Metrics(context.Context) ([]RuntimeMetric, error) {
	panic("the runtime is not asked for what cgroups tell")
}

// TestSliceMetrics: with systemd the cgroups are called as cAdvisor has them, and belong to the same pods and
// containers.
func TestSliceMetrics(t *testing.T) {
	v, groups := measuredPod()
	v.Pod.UID = "u-1"
	all := sliced{fixedGroups{}}
	for was, is := range map[string]string{"/kubepods": "/kubepods.slice",
		"/kubepods/podu1":      "/kubepods.slice/kubepods-podu_1.slice",
		"/kubepods/podu1/c1":   "/kubepods.slice/kubepods-podu_1.slice/cri-containerd-c1.scope",
		"/kubepods/podu1/box1": "/kubepods.slice/kubepods-podu_1.slice/cri-containerd-box1.scope"} {
		g := groups[was]
		g.Path = is
		all.fixedGroups[is] = g
	}
	o := Options{NodeName: "n", TLS: TLSOptions{CertDir: t.TempDir()}, Pods: func() []pod.View { return []pod.View{v} },
		Stats:   slicedUsage{},
		Machine: Machine{Cgroups: CgroupOptions{Reader: all, Pods: ofPods("/kubepods.slice")}}}
	text := scraped(t, o, http.Header{})
	c :=
		`container="c",%sid="/kubepods.slice/kubepods-podu_1.slice/cri-containerd-c1.scope",image="odd\"image",name="c1",namespace="ns",pod="p"`
	for _, want := range []string{"container_memory_working_set_bytes{" + fmt.Sprintf(c, "") + "} 80 ",
		"container_fs_usage_bytes{" + fmt.Sprintf(c, `device="",`) + "} 4096",
		`container_network_receive_bytes_total{container="",id="/kubepods.slice/kubepods-podu_1.slice/cri-containerd-box1.scope",image="",name="box1",namespace="ns",pod="p",interface="eth0"} 11 `,
		`container_memory_rss{container="",id="/kubepods.slice/kubepods-podu_1.slice",image="",name="",namespace="ns",pod="p"} 0 `,
		`container_memory_rss{container="",id="/kubepods.slice",image="",name="",namespace="",pod=""} 300 `} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not there", want)
		}
	}
}

// sliced lists all of its groups.
type sliced struct{ fixedGroups }

func (s sliced) Trees(context.Context, string, ...string) []usage.Group {
	return slices.Collect(maps.Values(s.fixedGroups))
}

// slicedUsage is podUsage of a pod with a dash in its UID.
type slicedUsage struct{ podUsage }

func (slicedUsage) PodStats(ctx context.Context) ([]statsapi.PodStats, error) {
	list, err := podUsage{}.PodStats(ctx)
	list[0].PodRef.UID = "u-1"
	return list, err
}

// TestNoSwap: where there are cgroups and no swap space, none is used, and what is used and left is the limit.
func TestNoSwap(t *testing.T) {
	for _, total := range []uint64{0, 9} {
		usage := func(string) (platform.Usage, error) {
			return platform.Usage{MemoryTotal: 100, SwapTotal: total, SwapFree: 7 * total / 9}, nil
		}
		_, groups := measuredPod()
		s := newSampler(Options{Stats: &fixedStats{pods: 1}, Pods: func() []pod.View { return nil },
			Machine: Machine{Usage: usage, Cgroups: CgroupOptions{Reader: groups}}})
		all, err := s.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		node, none := all.Node.Swap, total == 0
		if *node.SwapUsageBytes+*node.SwapAvailableBytes != total || (all.Pods[0].Swap != nil) != none ||
			(all.Pods[0].Containers[0].Swap != nil) != none {
			t.Errorf("%d bytes of swap space: node %+v, pods %+v", total, node, all.Pods[0])
		}
	}

	if got := swapLimit(&statsapi.SwapStats{SwapUsageBytes: number(2),
		SwapAvailableBytes: number(3)}); *got.SwapUsageBytes != 5 {
		t.Errorf("limit %d", *got.SwapUsageBytes)
	}
	if got := swapLimit(&statsapi.SwapStats{SwapUsageBytes: number(2)}); got != nil {
		t.Errorf("a limit that nobody knows: %d", *got.SwapUsageBytes)
	}
}

// TestGroupMetrics: the page has the series of cgroups under cAdvisor's names and labels, a label with a quote in it
// does not break it, and Prometheus' parser reads it, compressed or not.
func TestGroupMetrics(t *testing.T) {
	v, groups := measuredPod()
	o := Options{NodeName: "n", TLS: TLSOptions{CertDir: t.TempDir()}, Pods: func() []pod.View { return []pod.View{v} },
		Stats: podUsage{},
		Machine: Machine{Cgroups: CgroupOptions{Reader: groups, Pods: ofPods("/kubepods"), Misc: "/system",
			Cgroup: func() string { return "/runtime" }}}}
	text := scraped(t, o, http.Header{"Accept-Encoding": {"gzip"}})
	if plain := scraped(t, o, http.Header{}); len(plain) != len(text) {
		t.Errorf("%d characters, and %d compressed", len(plain), len(text))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}

	c := `container="c",id="/kubepods/podu1/c1",image="odd\"image",name="c1",namespace="ns",pod="p"`
	for _, want := range []string{
		"container_cpu_usage_seconds_total{" + c + `,cpu="total"} 1.5 1700000000000`,
		"container_memory_working_set_bytes{" + c + "} 80 1700000000000",
		"container_spec_memory_limit_bytes{" + c + "} 1000 ", "container_sockets{" + c + "} 2 ",
		"container_threads{" + c + "} 3 ", "container_processes{" + c + "} 1 ",
		"container_ulimits_soft{" + c + `,ulimit="max_open_files"} 1024 `,
		"container_memory_failures_total{" + c + `,failure_type="pgfault",scope="container"} 7 `,
		"container_start_time_seconds{" + c + "} 1.69999994e+09 ", "container_fs_reads_total{" + c + `,device=""} 0 `,
		`container_fs_usage_bytes{container="c",device="",id="/kubepods/podu1/c1",image="odd\"image",name="c1",namespace="ns",pod="p"} 4096`,
		`container_network_receive_bytes_total{container="",id="/kubepods/podu1/box1",image="",name="box1",namespace="ns",pod="p",interface="eth0"} 11 `,
		`container_memory_rss{container="",id="/kubepods/podu1",image="",name="",namespace="ns",pod="p"} 0 `,
		`container_memory_rss{container="",id="/kubepods",image="",name="",namespace="",pod=""} 300 `,
		`container_memory_rss{container="",id="/",image="",name="",namespace="",pod=""} 0 `,
		`container_last_seen{container="",id="/runtime",`, `container_last_seen{container="",id="/system",`,
		`container_pressure_cpu_waiting_seconds_total{container="",id="/kubepods",image="",name="",namespace="",pod=""} 2 `,
		`container_fs_limit_bytes{container="",id="/",image="",name="",namespace="",pod="",device="/dev/sda1"} 1000 `,
		`container_fs_read_seconds_total{container="",id="/",image="",name="",namespace="",pod="",device="/dev/sda1"} 1.5 `,
		`container_fs_usage_bytes{container="",device="/dev/sda1",id="/",image="",name="",namespace="",pod=""} 400`,
		"container_scrape_error 0", "machine_scrape_error 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
	for _, not := range []string{"container_spec_cpu_quota", "container_cpu_cfs_periods_total",
		"container_pressure_io_stalled_seconds_total{" + c} {
		if strings.Contains(text, not) {
			t.Errorf("has %s", not)
		}
	}
}

// TestGroupMetricsWithoutRuntime: a runtime that fails costs what only it tells.
func TestGroupMetricsWithoutRuntime(t *testing.T) {
	v, groups := measuredPod()
	o := Options{NodeName: "n", TLS: TLSOptions{CertDir: t.TempDir()}, Pods: func() []pod.View { return []pod.View{v} },
		Machine: Machine{Cgroups: CgroupOptions{Reader: groups, Pods: ofPods("/kubepods")}}}
	text := scraped(t, o, http.Header{})
	if !strings.Contains(text, `container_memory_rss{container="c",`) ||
		strings.Contains(text, `container_fs_usage_bytes{container="c"`) {
		t.Errorf("%s", text)
	}
}

// TestSystemGroups: what cgroups tell of programs and of all pods together, in the statistics.
func TestSystemGroups(t *testing.T) {
	_, groups := measuredPod()
	s := newSampler(
		Options{Machine: Machine{Cgroups: CgroupOptions{Reader: groups, Pods: ofPods("/kubepods"), Misc: "/system",
			Runtime: func() (usage.Group, bool) { g, ok := groups["/runtime"]; return g, ok }}}})
	by := map[string]statsapi.ContainerStats{}
	var names []string
	for _, c := range s.systemContainers(nil, metav1.Now()) {
		by[c.Name] = c
		names = append(names, c.Name)
	}
	if fmt.Sprint(names) != "[kubelet pods runtime misc]" {
		t.Fatalf("%v", names)
	}
	if m := by["pods"].Memory; *m.AvailableBytes != 1600 || *m.RSSBytes != 300 || *m.PageFaults != 9 ||
		by["runtime"].Memory.AvailableBytes != nil {
		t.Errorf("%+v", m)
	}
	if p := by["pods"].CPU.PSI; p == nil || p.Some.Total != 2e6 || p.Some.Avg10 != 1.5 || by["misc"].CPU.PSI != nil {
		t.Errorf("%+v", p)
	}

	later := groups["/kubepods"]
	later.At, later.CPU.Total = later.At.Add(2*time.Second), 1e9
	groups["/kubepods"] = later
	for _, c := range s.systemContainers(nil, metav1.Now()) {
		if c.Name == "pods" && *c.CPU.UsageNanoCores != 5e8 {
			t.Errorf("%d ns/s, want 5e8", *c.CPU.UsageNanoCores)
		}
	}
}

// BenchmarkGroupPage: the page of 100 pods, each with a container and a sandbox.
func BenchmarkGroupPage(b *testing.B) {
	_, one := measuredPod()
	var groups []usage.Group
	for i := range 100 {
		for _, path := range []string{"/kubepods/podu1", "/kubepods/podu1/c1", "/kubepods/podu1/box1"} {
			g := one[path]
			g.Path = strings.Replace(path, "podu1", fmt.Sprintf("podu%d", i), 1)
			groups = append(groups, g)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		of := owners(groups, nil)
		var page bytes.Buffer
		w := bufio.NewWriter(&page)
		for i := range families {
			families[i].write(w, groups, of)
		}
		b.SetBytes(int64(page.Len()))
	}
}
