package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// fixedStats is a runtime with some pods of one container each.
type fixedStats struct {
	pods  int
	calls atomic.Int32
	hang  chan struct{} // when not nil, calls wait for it
	// metrics are what the runtime measures itself.
	metrics []RuntimeMetric
}

func (f *fixedStats) PodStats(ctx context.Context) ([]statsapi.PodStats, error) {
	f.calls.Add(1)
	if f.hang != nil {
		select {
		case <-f.hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n, at := uint64(2e9), metav1.Now()
	cpu, mem := &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: &n}, &statsapi.MemoryStats{Time: at,
		WorkingSetBytes: &n}
	var out []statsapi.PodStats
	for i := range max(f.pods, 1) {
		out = append(out,
			statsapi.PodStats{PodRef: statsapi.PodReference{Name: fmt.Sprintf("p%d", i), Namespace: "ns",
				UID: fmt.Sprintf("u%d", i)}, CPU: cpu, Memory: mem,
				Containers: []statsapi.ContainerStats{{Name: "c", CPU: cpu, Memory: mem,
					Rootfs: &statsapi.FsStats{UsedBytes: &n}}}})
	}
	return out, nil
}

func (f *fixedStats) ImageFs(context.Context) (*statsapi.FsStats, error) {
	return &statsapi.FsStats{}, nil
}

func (f *fixedStats) Metrics(context.Context) ([]RuntimeMetric, error) { return f.metrics, nil }

func statsViews(n int, logPath string) []pod.View {
	var out []pod.View
	start := metav1.NewTime(time.Unix(1e9, 0))
	for i := range n {
		out = append(out,
			pod.View{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i),
				UID: types.UID(fmt.Sprintf("u%d", i))},
				Status: v1.PodStatus{StartTime: &start,
					ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://cid",
						Image: "registry/app:1",
						State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: start}}}}}},
				Containers: map[string]pod.ContainerView{"c": {ID: "cid", LogPath: logPath, Running: true}}})
	}
	return out
}

// fixedVolumes are the volumes of each pod, which has a hosts file and a termination message besides.
type fixedVolumes []measure.Usage

func (f fixedVolumes) Usage(context.Context, types.UID) []measure.Usage { return f }

func (fixedVolumes) FileUsage(types.UID) measure.Usage {
	return measure.Usage{UsedBytes: 40, UsedInodes: 2}
}

func TestStatistics(t *testing.T) {
	stats := &fixedStats{}
	logPath := writeLog(t, strings.Repeat("x", 100))
	if err := os.WriteFile(filepath.Join(filepath.Dir(logPath), "0.log.1"), make([]byte, 50), 0o600); err != nil {
		t.Fatal(err)
	}

	srv := startServer(t, Options{Auth: AuthOptions{Anonymous: true},
		Pods: func() []pod.View { return statsViews(1, logPath) }, Stats: stats, RootDir: tempDir(t),
		Volumes: fixedVolumes{{Name: "disk", UsedBytes: 1000, Local: true},
			{Name: "memory", UsedBytes: 7, CapacityBytes: 70, AvailableBytes: 63},
			{Name: "claimed", Claim: "data", UsedBytes: 5, CapacityBytes: 9, AvailableBytes: 4, Inodes: 3,
				Abnormal: new(bool)}}})

	_, text := get(t, client(), srv.URL+"/stats/summary", "")
	var summary statsapi.Summary
	if err := json.Unmarshal([]byte(text), &summary); err != nil {
		t.Fatal(err)
	}

	p := summary.Pods[0]
	c := p.Containers[0]
	if summary.Node.NodeName != "n" || *summary.Node.CPU.UsageCoreNanoSeconds == 0 ||
		*summary.Node.Memory.AvailableBytes == 0 || *summary.Node.Runtime.ImageFs.CapacityBytes == 0 {
		t.Errorf("node: %s", text)
	}
	dir, err := os.OpenRoot(filepath.Dir(logPath))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	taken, files := measure.Folder(t.Context(), dir) // on the disk, in blocks
	if taken < 150 || *c.Logs.UsedBytes != taken || *c.Logs.InodesUsed != files || *c.Logs.AvailableBytes == 0 ||
		*c.Rootfs.CapacityBytes == 0 || c.StartTime.Unix() != 1e9 || p.StartTime.Unix() != 1e9 {
		t.Errorf("container: %s", text)
	}
	if len(p.VolumeStats) != 3 || *p.VolumeStats[1].CapacityBytes != 70 ||
		*p.EphemeralStorage.UsedBytes != 2e9+taken+1000+40 || *p.EphemeralStorage.InodesUsed != files+2 {
		t.Errorf("volumes: %s", text)
	}

	if v := p.VolumeStats[2]; v.PVCRef == nil || v.PVCRef.Name != "data" || v.PVCRef.Namespace != "ns" ||
		v.VolumeHealthStats == nil || v.VolumeHealthStats.Abnormal {
		t.Errorf("the volume of a claim: %s", text)
	}
	_, claims := get(t, client(), srv.URL+"/metrics", "")
	for name, want := range map[string]string{"capacity_bytes": "9", "available_bytes": "4", "used_bytes": "5",
		"inodes": "3", "health_status_abnormal": "0"} {
		if line := "kubelet_volume_stats_" + name + `{namespace="ns",persistentvolumeclaim="data"} ` + want +
			"\n"; !strings.Contains(claims, line) {
			t.Errorf("metrics lack %s", line)
		}
	}

	_, metrics := get(t, client(), srv.URL+"/metrics/resource", "")
	for _, want := range []string{`container_cpu_usage_seconds_total{container="c",namespace="ns",pod="p0"} 2`,
		"node_memory_working_set_bytes ", "resource_scrape_error 0",
		`container_start_time_seconds{container="c",namespace="ns",pod="p0"} 1e+09`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s: %s", want, metrics)
		}
	}

	_, short := get(t, client(), srv.URL+"/stats/summary?only_cpu_and_memory=true", "")
	if strings.Contains(short, "logs") || !strings.Contains(short, "usageCoreNanoSeconds") {
		t.Errorf("only cpu and memory: %s", short)
	}
	if n := stats.calls.Load(); n != 1 {
		t.Errorf("the runtime was asked %d times", n)
	}
}

// TestSummaryOf250PodsIsFast: the bound is that of the product's promises, 250 ms; the median of ten reads must hold
// it.
// Row 1.86.
func TestSummaryOf250PodsIsFast(t *testing.T) {
	logPath := writeLog(t, "x")
	srv := startServer(t, Options{Auth: AuthOptions{Anonymous: true},
		Pods: func() []pod.View { return statsViews(250, logPath) }, Stats: &fixedStats{pods: 250},
		RootDir: tempDir(t)})
	who := client()
	if _, text := get(t, who, srv.URL+"/stats/summary", ""); strings.Count(text, "podRef") != 250 {
		t.Fatalf("%d pods", strings.Count(text, "podRef"))
	}
	slow := 0
	for range 10 {
		began := time.Now()
		get(t, who, srv.URL+"/stats/summary", "")
		if took := time.Since(began); took > 250*time.Millisecond {
			slow++
			t.Logf("took %v", took)
		}
	}
	if slow > 5 {
		t.Errorf("%d of 10 reads took longer than 250 ms", slow)
	}
}

// TestARuntimeThatHangsMakesStatisticsOldNotSlow reads while a call of the runtime does not return.
func TestARuntimeThatHangsMakesStatisticsOldNotSlow(t *testing.T) {
	stats := &fixedStats{}
	s := newSampler(Options{Pods: func() []pod.View { return nil }, Stats: stats, RootDir: tempDir(t)})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	first, err := s.get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stats.hang = make(chan struct{})
	s.summary.mu.Lock()
	s.summary.at = s.summary.at.Add(-time.Hour)
	s.summary.mu.Unlock()

	for range 2 {
		began := time.Now()
		old, err := s.get(ctx)
		if err != nil || old != first {
			t.Fatalf("%v, the old ones: %v", err, old == first)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a reader waited %v", took)
		}
	}

	close(stats.hang)
	<-s.summary.start()
	if fresh, err := s.get(ctx); err != nil || fresh == first {
		t.Errorf("%v, still the old ones: %v", err, fresh == first)
	}
	if n := stats.calls.Load(); n > 3 {
		t.Errorf("%d calls of a runtime that hung", n)
	}
}

// TestSystemContainers: the parts of the node that are not containers of pods, under upstream's names.
func TestSystemContainers(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	pods := []statsapi.PodStats{
		{CPU: &statsapi.CPUStats{UsageCoreNanoSeconds: n(5)}, Memory: &statsapi.MemoryStats{WorkingSetBytes: n(10)}},
		{CPU: &statsapi.CPUStats{UsageCoreNanoSeconds: n(6), UsageNanoCores: n(7)},
			Memory: &statsapi.MemoryStats{WorkingSetBytes: n(20)}},
		{},
	}

	at := metav1.Now()
	s := newSampler(Options{})
	s.last = platform.Usage{OwnCPUNanoseconds: 3, OwnMemory: 4, CommitTotal: 30, CommitLimit: 100}
	list := s.systemContainers(pods, at)
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, c := range list {
		names = append(names, c.Name)
	}
	if fmt.Sprint(names) != "[kubelet pods windows-global-commit-memory]" || *list[0].CPU.UsageCoreNanoSeconds != 3 ||
		*list[0].Memory.WorkingSetBytes != 4 ||
		*list[1].CPU.UsageCoreNanoSeconds != 11 || *list[1].CPU.UsageNanoCores != 7 ||
		*list[1].Memory.WorkingSetBytes != 30 || list[1].Memory.RSSBytes != nil ||
		*list[2].Memory.AvailableBytes != 70 || *list[2].Memory.UsageBytes != 30 {
		t.Errorf("%s", text)
	}
	s.last = platform.Usage{OwnCPUNanoseconds: 3 + 2e9, OwnMemory: 4, OwnFaults: 9, OwnMajorFaults: 1}
	list = s.systemContainers(nil, metav1.NewTime(at.Add(4*time.Second)))
	if own := list[0]; *own.CPU.UsageNanoCores != 5e8 || *own.Memory.PageFaults != 9 ||
		*own.Memory.MajorPageFaults != 1 {
		t.Errorf("the kubelet after 4 s: %+v %+v", own.CPU, own.Memory)
	}
	if n := len(list); n != 2 {
		t.Errorf("%d without Windows", n)
	}

	net := networkOf([]platform.InterfaceUsage{{Name: "a", RxBytes: 1}, {Name: "b", Default: true, TxBytes: 2}}, at)
	if net.Name != "b" || *net.TxBytes != 2 || len(net.Interfaces) != 2 || networkOf(nil, at) != nil {
		t.Errorf("network: %+v", net)
	}
}

// TestContainerMetrics: series have cAdvisor's names and labels, and the runtime's own series of other names are passed
// on.
func TestContainerMetrics(t *testing.T) {
	kind := func(name string) *RuntimeMetricKind {
		return &RuntimeMetricKind{Name: name, Help: "of the runtime", Labels: []string{"pod", "id"}}
	}
	stats := &fixedStats{metrics: []RuntimeMetric{
		{Kind: kind("container_threads"), Values: []string{"p0", "cid"}, Value: 3, At: time.UnixMilli(1234)},
		{Kind: kind("container_oom_events_total"), Values: []string{"p0", "cid"}, Value: 1, Counter: true},
		{Kind: kind("container_start_time_seconds"), Values: []string{"p0", "cid"}, Value: 1e18},
		{Kind: kind("container_sockets"), Values: []string{"too few"}, Value: 1},
	}}

	srv := startServer(t, Options{Auth: AuthOptions{Anonymous: true},
		Pods: func() []pod.View { return statsViews(1, "") }, Stats: stats, RootDir: tempDir(t),
		Machine: Machine{CPUs: 2, MemoryBytes: 1024, MachineID: "m", BootID: "b", SystemUUID: "s", KernelVersion: "6.1",
			OSImage: "Debian"}})
	code, text := get(t, client(), srv.URL+"/metrics/cadvisor", "")
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}

	for _, want := range []string{
		`container_cpu_usage_seconds_total{container="c",cpu="total",id="cid",image="registry/app:1",name="cid",namespace="ns",pod="p0"} 2`,
		`container_memory_working_set_bytes{container="",id="",image="",name="",namespace="ns",pod="p0"} 2e+09`,
		`container_memory_working_set_bytes{container="",id="/",image="",name="",namespace="",pod=""} `,
		`container_fs_usage_bytes{container="c",device="",id="cid",image="registry/app:1",name="cid",namespace="ns",pod="p0"} 2e+09`,
		`container_start_time_seconds{container="c",id="cid",image="registry/app:1",name="cid",namespace="ns",pod="p0"} 1e+09`,
		`container_threads{id="cid",pod="p0"} 3 1234`,
		`container_oom_events_total{id="cid",pod="p0"} 1`,
		`container_scrape_error 0`,
		`machine_cpu_cores{boot_id="b",machine_id="m",system_uuid="s"} 2`,
		`machine_memory_bytes{boot_id="b",machine_id="m",system_uuid="s"} 1024`,
		`cadvisor_version_info{cadvisorRevision="",cadvisorVersion="",dockerVersion="",kernelVersion="6.1",osVersion="Debian"} 1`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("/metrics/cadvisor lacks %s", want)
		}
	}

	for _, bad := range []string{"1e+18", "container_sockets{"} {
		if strings.Contains(text, bad) {
			t.Errorf("/metrics/cadvisor has %s", bad)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A pod that is listed twice, with its old sandbox and its new one, must not cost the metrics of all others.
func TestPodListedTwice(t *testing.T) {
	started := metav1.NewTime(time.Unix(1e9, 0))
	pod := statsapi.PodStats{PodRef: statsapi.PodReference{Name: "p", Namespace: "ns"},
		Containers: []statsapi.ContainerStats{{Name: "c", StartTime: started}}}
	other := pod
	other.PodRef.Name = "other"

	registry := prometheus.NewRegistry()
	registry.MustRegister(resources{all: &statsapi.Summary{Pods: []statsapi.PodStats{pod, pod, other}}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, f := range families {
		if f.GetName() == "container_start_time_seconds" && len(f.GetMetric()) == 2 {
			return
		}
	}
	t.Errorf("want one start time per container: %v", families)
}

// TestStatisticsOfANewPod: a pod that was started after the statistics were taken is in the next answer. Upstream's
// tests of Windows nodes ask as soon as their pods run.
func TestStatisticsOfANewPod(t *testing.T) {
	stats, logPath := &fixedStats{}, writeLog(t, "x")
	var begun atomic.Pointer[metav1.Time]
	views := func() []pod.View {
		if begun.Load() == nil {
			return statsViews(1, logPath)
		}
		out := statsViews(2, logPath)
		out[1].Pod.Status.ContainerStatuses[0].State.Running.StartedAt = *begun.Load()
		return out
	}
	srv := startServer(t, Options{Auth: AuthOptions{Anonymous: true}, Pods: views, Stats: stats, RootDir: tempDir(t)})
	read := func() (names []string) {
		var summary statsapi.Summary
		if _, text := get(t, client(), srv.URL+"/stats/summary", ""); json.Unmarshal([]byte(text), &summary) != nil {
			t.Fatalf("not a summary: %s", text)
		}
		for _, p := range summary.Pods {
			names = append(names, p.PodRef.Name)
		}
		return names
	}

	if got := read(); len(got) != 1 {
		t.Fatalf("statistics of %v", got)
	}
	stats.pods = 2
	now := metav1.Now()
	begun.Store(&now)
	if got := read(); len(got) != 2 {
		t.Errorf("statistics of %v, want of the new pod too", got)
	}
}
