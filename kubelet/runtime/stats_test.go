package runtime

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// usageRuntime answers with fixed usage: by sandbox, or by container if it is old.
type usageRuntime struct {
	cri.RuntimeServiceClient
	old bool
}

func value(n uint64) *cri.UInt64Value { return &cri.UInt64Value{Value: n} }

func linuxContainer(name string) *cri.ContainerStats {
	return &cri.ContainerStats{
		Attributes: &cri.ContainerAttributes{Metadata: &cri.ContainerMetadata{Name: name, Attempt: 1},
			Labels: map[string]string{"io.kubernetes.pod.uid": "u", "io.kubernetes.pod.name": "p",
				"io.kubernetes.pod.namespace": "ns"}},
		Cpu:    &cri.CpuUsage{Timestamp: 1e9, UsageCoreNanoSeconds: value(5)},
		Memory: &cri.MemoryUsage{WorkingSetBytes: value(7)},
	}
}

// ended is the instance before the one of linuxContainer, which the runtime still lists.
func ended(name string) *cri.ContainerStats {
	c := linuxContainer(name)
	c.Attributes.Metadata.Attempt = 0
	c.Cpu.UsageCoreNanoSeconds = value(1000)
	return c
}

func (u usageRuntime) ListPodSandboxStats(context.Context, *cri.ListPodSandboxStatsRequest,
	...grpc.CallOption) (*cri.ListPodSandboxStatsResponse, error) {
	if u.old {
		return nil, status.Error(codes.Unimplemented, "no")
	}
	meta := &cri.PodSandboxAttributes{Metadata: &cri.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: "u"}}
	return &cri.ListPodSandboxStatsResponse{Stats: []*cri.PodSandboxStats{
		{Attributes: meta,
			Linux: &cri.LinuxPodSandboxStats{Containers: []*cri.ContainerStats{ended("a"), linuxContainer("a"),
				linuxContainer("b"), ended("b")}}},
		{Attributes: meta, Windows: &cri.WindowsPodSandboxStats{Containers: []*cri.WindowsContainerStats{
			{Attributes: &cri.ContainerAttributes{Metadata: &cri.ContainerMetadata{Name: "a"}},
				Cpu:    &cri.WindowsCpuUsage{UsageCoreNanoSeconds: value(10)},
				Memory: &cri.WindowsMemoryUsage{WorkingSetBytes: value(14), CommitMemoryBytes: value(20)}}, {}}}},
	}}, nil
}

func (u usageRuntime) ListContainerStats(context.Context, *cri.ListContainerStatsRequest,
	...grpc.CallOption) (*cri.ListContainerStatsResponse, error) {
	return &cri.ListContainerStatsResponse{Stats: []*cri.ContainerStats{ended("a"), linuxContainer("a"),
		linuxContainer("b"), ended("b")}}, nil
}

func TestPodStats(t *testing.T) {
	for _, old := range []bool{false, true} {
		pods, err := Stats{Runtime: usageRuntime{old: old}}.PodStats(context.Background())
		if err != nil || len(pods) == 0 {
			t.Fatalf("old %v: %v %v", old, pods, err)
		}
		for i, p := range pods {
			if p.PodRef.UID != "u" || p.PodRef.Name != "p" || len(p.Containers) != 2 || p.Containers[0].Name != "a" ||
				*p.CPU.UsageCoreNanoSeconds != 10 || *p.Memory.WorkingSetBytes != 14 {
				t.Errorf("old %v, pod %d: %+v", old, i, p)
			}
		}
	}
}

// spoilt has three sandboxes, of which failing have no statistics. containerd then answers the list with an error and
// nothing else (2.3.6: ListPodSandboxStats in internal/cri/server/sandbox_stats_list.go joins the errors).
type spoilt struct {
	cri.RuntimeServiceClient
	failing []string
	hanging string // its statistics hang, and the list with them
}

func (s spoilt) ListPodSandboxStats(ctx context.Context, _ *cri.ListPodSandboxStatsRequest,
	_ ...grpc.CallOption) (*cri.ListPodSandboxStatsResponse, error) {
	if s.hanging != "" {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return nil, status.Errorf(codes.Unknown,
		"failed to decode sandbox container metrics for sandbox %q: failed to fetch metrics for tasks: hcs::System::Properties: The requested operation is not valid in the current state. (0xc0370105)", s.failing)
}

func (s spoilt) ListPodSandbox(_ context.Context, r *cri.ListPodSandboxRequest,
	_ ...grpc.CallOption) (*cri.ListPodSandboxResponse, error) {
	if r.GetFilter().GetState().GetState() != cri.PodSandboxState_SANDBOX_READY || r.GetFilter().GetState() == nil {
		return nil, status.Error(codes.Unknown, "sandboxes that have ended have no statistics")
	}
	return &cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: "a"}, {Id: "b"}, {Id: "c"}}}, nil
}

func (s spoilt) PodSandboxStats(ctx context.Context, r *cri.PodSandboxStatsRequest,
	_ ...grpc.CallOption) (*cri.PodSandboxStatsResponse, error) {
	if r.PodSandboxId == s.hanging {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if slices.Contains(s.failing, r.PodSandboxId) {
		return nil, status.Error(codes.Unknown, "access denied")
	}
	return &cri.PodSandboxStatsResponse{Stats: &cri.PodSandboxStats{
		Attributes: &cri.PodSandboxAttributes{Id: r.PodSandboxId,
			Metadata: &cri.PodSandboxMetadata{Name: r.PodSandboxId, Namespace: "ns", Uid: "uid-" + r.PodSandboxId}},
		Windows: &cri.WindowsPodSandboxStats{Cpu: &cri.WindowsCpuUsage{UsageCoreNanoSeconds: value(10)}}}}, nil
}

// TestPodStatsOfTheOthers: a sandbox that has no statistics costs no other sandbox its own.
func TestPodStatsOfTheOthers(t *testing.T) {
	pods, err := Stats{Runtime: spoilt{failing: []string{"b"}}}.PodStats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pods {
		names = append(names, p.PodRef.Name)
	}
	if fmt.Sprint(names) != "[a c]" {
		t.Errorf("statistics of %v, want of a and c", names)
	}

	if pods, err := (Stats{Runtime: spoilt{failing: []string{"a", "b", "c"}}}).
		PodStats(context.Background()); err == nil {
		t.Errorf("no sandbox has statistics, and the answer is %v", pods)
	}
}

// TestPodStatsWhileOneHangs: a sandbox whose statistics hang takes the others neither their statistics nor more than
// two deadlines.
func TestPodStatsWhileOneHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // as kubelet/serve asks
		defer cancel()
		begun := time.Now()
		pods, err := Stats{Runtime: spoilt{hanging: "b"}}.PodStats(ctx)
		if err != nil || len(pods) != 2 {
			t.Errorf("statistics of %d pods, want 2: %v", len(pods), err)
		}
		if took := time.Since(begun); took > 2*statsTimeout {
			t.Errorf("they took %v", took)
		}
	})
}

// TestInterfacesOnce: each interface of a pod is there once, on both systems, whether the runtime lists the default
// one among the others or not: readers add them up.
func TestInterfacesOnce(t *testing.T) {
	linux := func(name string, n uint64) *cri.NetworkInterfaceUsage {
		return &cri.NetworkInterfaceUsage{Name: name, RxBytes: value(n), TxBytes: value(n)}
	}
	windows := func(name string, n uint64) *cri.WindowsNetworkInterfaceUsage {
		return &cri.WindowsNetworkInterfaceUsage{Name: name, RxBytes: value(n), TxBytes: value(n)}
	}

	for name, stats := range map[string]*cri.PodSandboxStats{
		"Linux, among the others": {
			Linux: &cri.LinuxPodSandboxStats{Network: &cri.NetworkUsage{DefaultInterface: linux("eth0", 5),
				Interfaces: []*cri.NetworkInterfaceUsage{linux("eth0", 5), linux("eth1", 2)}}}},
		"Linux, apart": {
			Linux: &cri.LinuxPodSandboxStats{Network: &cri.NetworkUsage{DefaultInterface: linux("eth0", 5),
				Interfaces: []*cri.NetworkInterfaceUsage{linux("eth1", 2)}}}},
		"Windows, among the others": {
			Windows: &cri.WindowsPodSandboxStats{Network: &cri.WindowsNetworkUsage{DefaultInterface: windows("eth0", 5),
				Interfaces: []*cri.WindowsNetworkInterfaceUsage{windows("eth1", 2), windows("eth0", 5)}}}},
		"Windows, apart": {Windows: &cri.WindowsPodSandboxStats{
			Network: &cri.WindowsNetworkUsage{DefaultInterface: windows("eth0", 5),
				Interfaces: []*cri.WindowsNetworkInterfaceUsage{windows("eth1", 2)}}}},
	} {
		got, text := podStats(stats).Network, ""
		for _, i := range got.Interfaces {
			text += fmt.Sprint(i.Name, "=", *i.RxBytes, " ")
		}
		if got.Name != "eth0" || text != "eth0=5 eth1=2 " {
			t.Errorf("%s: %s, then %s", name, got.Name, text)
		}
	}
}
