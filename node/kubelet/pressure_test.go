package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/volume/measure"
)

func TestEvictionSettings(t *testing.T) {
	yes := true
	cfg := &v1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "100Mi",
		"nodefs.available": "7.5%", "imagefs.available": "100%"},
		EvictionSoft:            map[string]string{"memory.available": "1Gi"},
		EvictionSoftGracePeriod: map[string]string{"memory.available": "1m30s"},
		EvictionMinimumReclaim:  map[string]string{"nodefs.available": "1Gi"}, EvictionMaxPodGracePeriod: 7,
		EnforceNodeAllocatable: []string{"pods"}, LocalStorageCapacityIsolation: &yes}
	got, err := evictionSettings(cfg)
	if err != nil || got.MaxGrace != 7*time.Second || !got.LocalLimits {
		t.Fatal(got, err)
	}
	want :=
		"[{memory.available {104857600 0} {0 0} 0s} {nodefs.available {0 7.5} {1073741824 0} 0s} {memory.available {1073741824 0} {0 0} 1m30s}"
	if !platform.IsWindows {
		want += " {allocatableMemory.available {104857600 0} {0 0} 0s}"
	}
	if text := fmt.Sprint(got.Thresholds); text != want+"]" {
		t.Errorf("%s, want %s", text, want)
	}

	for _, bad := range []func(){
		func() { cfg.EvictionHard = map[string]string{"strange": "1"} },
		func() { cfg.EvictionHard = map[string]string{"memory.available": "lots"} },
		func() {
			cfg.EvictionHard, cfg.EvictionMinimumReclaim["memory.available"] = map[string]string{
				"memory.available": "1"}, "x%"
		},
		func() { cfg.EvictionHard, cfg.EvictionSoftGracePeriod = nil, nil },
	} {
		bad()
		if _, err := evictionSettings(cfg); err == nil {
			t.Errorf("accepted: %+v", cfg)
		}
	}
}

// machine is a reader of a machine whose disks are named by the first part of a path.
func machine(images, layers string) *leftReader {
	sizes := map[string]platform.Disk{"node": {DiskAvailable: 2, DiskTotal: 3, Inodes: 9, InodesFree: 8},
		"images": {DiskAvailable: 1, DiskTotal: 2}}
	first := func(path string) string { name, _, _ := strings.Cut(path, "/"); return name }
	return &leftReader{root: "node/kubelet", podsLimit: 100,
		folders: func(context.Context) (string, string, error) { return images, layers, nil },
		disk: func(path string) (platform.Disk, error) {
			d, ok := sizes[first(path)]
			if !ok {
				return d, os.ErrNotExist
			}
			return d, nil
		},
		usage: func(string) (platform.Usage, error) {
			return platform.Usage{MemoryTotal: 10, MemoryWorkingSet: 4, Disk: sizes["node"], MaxTasks: 7, Tasks: 1}, nil
		},
		same: func(a, b string) (bool, error) { return first(a) == first(b), nil },
		pods: func() (uint64, error) { return 30, nil }}
}

// numbers prints levels without their times.
func numbers(l evict.Left) string {
	out := map[string]string{}
	for signal, level := range l.Levels {
		if level.At.IsZero() {
			signal += " without a time"
		}
		out[signal] = fmt.Sprintf("%d/%d", level.Left, level.Whole)
	}
	return strings.TrimPrefix(fmt.Sprint(out), "map") + fmt.Sprintf(" apart %v %v", l.ImagesApart, l.LayersApart)
}

func TestLeft(t *testing.T) {
	for name, c := range map[string]struct{ images, layers, want string }{
		"one disk": {"node/images", "node/images",
			"[allocatableMemory.available:70/100 containerfs.available:2/3 containerfs.inodesFree:8/9 imagefs.available:2/3 imagefs.inodesFree:8/9 memory.available:6/10 nodefs.available:2/3 nodefs.inodesFree:8/9 pid.available:6/7] apart false false"},
		"images apart": {"images/i", "images/l",
			"[allocatableMemory.available:70/100 containerfs.available:1/2 containerfs.inodesFree:0/0 imagefs.available:1/2 imagefs.inodesFree:0/0 memory.available:6/10 nodefs.available:2/3 nodefs.inodesFree:8/9 pid.available:6/7] apart true false"},
		"layers with the node": {"images/i", "node/l",
			"[allocatableMemory.available:70/100 containerfs.available:2/3 containerfs.inodesFree:8/9 imagefs.available:1/2 imagefs.inodesFree:0/0 memory.available:6/10 nodefs.available:2/3 nodefs.inodesFree:8/9 pid.available:6/7] apart true true"},
		"on another machine": {"elsewhere/i", "elsewhere/l",
			"[allocatableMemory.available:70/100 memory.available:6/10 nodefs.available:2/3 nodefs.inodesFree:8/9 pid.available:6/7] apart false false"},
	} {
		left, err := machine(c.images, c.layers).Left(t.Context())
		if got := numbers(left); err != nil || got != c.want {
			t.Errorf("%s: %s %v\nwant %s", name, got, err, c.want)
		}
	}

	r := machine("node/i", "node/l")
	r.usage = func(string) (platform.Usage, error) {
		return platform.Usage{MemoryTotal: 10, CommitLimit: 20, CommitTotal: 5}, nil
	}
	r.pods, r.folders = nil, func(context.Context) (string, string, error) { return "", "", errors.New("not yet") }
	left, err := r.Left(t.Context())
	if got := numbers(left); err != nil ||
		got != "[memory.available:15/20 nodefs.available:0/0 nodefs.inodesFree:0/0 pid.available:0/0] apart false false" {
		t.Errorf("Windows, before the runtime answers: %s %v", got, err)
	}
	r.usage = func(string) (platform.Usage, error) { return platform.Usage{}, errors.New("no counters") }
	if _, err := r.Left(t.Context()); err == nil {
		t.Error("a machine that cannot be read has levels")
	}
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0.log"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	n := func(i uint64) *uint64 { return &i }
	stats := statsapi.PodStats{PodRef: statsapi.PodReference{UID: "u"},
		Memory:       &statsapi.MemoryStats{WorkingSetBytes: n(7)},
		ProcessStats: &statsapi.ProcessStats{ProcessCount: n(3)}, Containers: []statsapi.ContainerStats{{Name: "c",
			Memory: &statsapi.MemoryStats{WorkingSetBytes: n(5)},
			Rootfs: &statsapi.FsStats{UsedBytes: n(50), InodesUsed: n(2)}}, {Name: "bare"}}}
	r := &leftReader{stats: fixedStats{stats},
		volumes: fixedVolumes{volumes: []measure.Usage{{Name: "v", UsedBytes: 9, UsedInodes: 4, Local: true},
			{Name: "config", UsedBytes: 1}},
			files: measure.Usage{UsedBytes: 6, UsedInodes: 2}}}

	view := func(uid types.UID) pod.View {
		p := &v1.Pod{}
		p.UID = uid
		return pod.View{Pod: p, Containers: map[string]pod.ContainerView{"c": {LogPath: filepath.Join(dir, "0.log")}}}
	}

	got, err := r.Usage(t.Context(), []pod.View{view("u"), view("unknown")})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	u := got["u"]
	c := u.Containers[1]
	if *u.Memory != 7 || u.Processes != 3 || *c.Memory != 5 || *c.Layer != 50 || c.LayerObjects != 2 ||
		*c.Logs != 100 || c.LogObjects != 1 ||
		u.Containers[0].Logs != nil || u.Containers[0].Memory != nil || u.Files != 6 || u.FileObjects != 2 ||
		len(u.Volumes) != 1 || u.Volumes[0] != (evict.VolumeUsage{Name: "v", Bytes: 9, Objects: 4}) {
		t.Errorf("%+v", u)
	}
}

type fixedStats []statsapi.PodStats

func (f fixedStats) PodStats(context.Context) ([]statsapi.PodStats, error) { return f, nil }

// fixedVolumes is what each pod has on disk.
type fixedVolumes struct {
	volumes []measure.Usage
	files   measure.Usage
}

func (f fixedVolumes) LocalUsage(context.Context, types.UID) []measure.Usage { return f.volumes }
func (f fixedVolumes) FileUsage(types.UID) measure.Usage                     { return f.files }

// slowStats is a runtime that answers no question about pods before its caller gives up, and counts them.
type slowStats struct{ asked *int }

func (s slowStats) PodStats(ctx context.Context) ([]statsapi.PodStats, error) {
	*s.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLocalUsageDoesNotNeedTheRuntime: while the runtime is slow, which it is when a container starts, what pods have
// in their volumes is known, and a pod that only has limits of volumes does not wait for the runtime.
func TestLocalUsageDoesNotNeedTheRuntime(t *testing.T) {
	view := func(uid types.UID, limit string) pod.View {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
		p.UID = uid
		if limit != "" {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{
				v1.ResourceEphemeralStorage: resource.MustParse(limit)}
		}
		return pod.View{Pod: p}
	}
	volumes := fixedVolumes{volumes: []measure.Usage{{Name: "v", UsedBytes: 9, UsedInodes: 4, Local: true}},
		files: measure.Usage{UsedBytes: 1}}
	bubble.Test(t, func(t *testing.T) {
		asked := 0
		r := &leftReader{stats: slowStats{&asked}, volumes: volumes}
		began := time.Now()
		got, whole := r.LocalUsage(t.Context(), []pod.View{view("sized", "")})
		if !whole || asked != 0 || got["sized"].Volumes[0].Bytes != 9 || time.Since(began) > 0 {
			t.Errorf("limits of volumes: %+v, whole %t, the runtime was asked %d times, %v", got, whole, asked,
				time.Since(began))
		}

		got, whole = r.LocalUsage(t.Context(), []pod.View{view("sized", ""), view("limited", "1Mi")})
		if whole || asked != 1 || len(got) != 2 || got["limited"].Files != 1 || got["limited"].Volumes[0].Bytes != 9 ||
			time.Since(began) > localTimeout {
			t.Errorf("limits of pods: %+v, whole %t, asked %d times, %v", got, whole, asked, time.Since(began))
		}

		volumes.volumes[0].Partial = true
		if got, whole = r.LocalUsage(t.Context(), []pod.View{view("sized", "")}); whole ||
			got["sized"].Volumes[0].Bytes != 9 {
			t.Errorf("a volume that was measured in part: %+v, whole %t", got, whole)
		}
	})

	n := func(i uint64) *uint64 { return &i }
	r := &leftReader{volumes: volumes,
		stats: fixedStats{{PodRef: statsapi.PodReference{UID: "limited"}, Containers: []statsapi.ContainerStats{
			{Name: "c", Rootfs: &statsapi.FsStats{UsedBytes: n(30 << 20)}}}}}}
	if got, _ := r.LocalUsage(t.Context(), []pod.View{view("limited", "1Mi")}); len(got["limited"].Containers) != 1 ||
		*got["limited"].Containers[0].Layer != 30<<20 {
		t.Errorf("the layer of a container: %+v", got["limited"])
	}
}
