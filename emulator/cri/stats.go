package cri

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats keeps only the fields that containerd on Windows sets: the processor time, the working set, the committed memory and
// the size of the writable layer, which has no inodes (2.3.6: windowsContainerMetrics in internal/cri/server/container_stats_list.go).
func (s service) ContainerStats(ctx context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	answer, err := s.runtime.ContainerStats(ctx, r)
	if err != nil {
		return nil, err
	}
	windowsStats(answer.Stats)
	return answer, nil
}

func (s service) ListContainerStats(ctx context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	answer, err := s.runtime.ListContainerStats(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, c := range answer.Stats {
		windowsStats(c)
	}
	return answer, nil
}

// windowsStats removes from the statistics of a Linux container what containerd on Windows does not report.
func windowsStats(c *runtimeapi.ContainerStats) {
	if c == nil {
		return
	}
	c.Swap, c.Io = nil, nil
	if c.Cpu != nil {
		c.Cpu.Psi = nil
	}
	if m := c.Memory; m != nil {
		c.Memory = &runtimeapi.MemoryUsage{Timestamp: m.Timestamp, WorkingSetBytes: m.WorkingSetBytes, UsageBytes: m.UsageBytes}
	}
	if c.WritableLayer != nil {
		c.WritableLayer.InodesUsed = &runtimeapi.UInt64Value{}
	}
}

func (s service) PodSandboxStats(ctx context.Context, r *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	answer, err := s.runtime.PodSandboxStats(ctx, r)
	if err != nil {
		return nil, err
	}
	if m := answer.GetStats().GetAttributes().GetMetadata(); s.profile().noStats(m.GetNamespace(), m.GetName()) {
		return nil, status.Errorf(codes.Unknown, "failed to decode pod sandbox metrics %s: %s", r.PodSandboxId, noStats)
	}
	windowsPodStats(answer.Stats)
	return answer, nil
}

func (s service) ListPodSandboxStats(ctx context.Context, r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	answer, err := s.runtime.ListPodSandboxStats(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := missingStats(s.profile(), answer.Stats); err != nil {
		return nil, err
	}
	for _, p := range answer.Stats {
		windowsPodStats(p)
	}
	return answer, nil
}

// noStats is Windows' error for the statistics of a sandbox that is starting or stopping.
const noStats = "failed to obtain container stats during podSandboxStats call: failed to fetch metrics for tasks: " +
	"hcs::System::Properties: The requested virtual machine or container operation is not valid in the current state. (0xc0370105)"

// missingStats returns containerd's error for the whole list if a sandbox has no statistics (2.3.6: ListPodSandboxStats in
// internal/cri/server/sandbox_stats_list.go). It has one line for each such sandbox.
func missingStats(p Profile, list []*runtimeapi.PodSandboxStats) error {
	var errs []error
	for _, one := range list {
		if m := one.GetAttributes().GetMetadata(); p.noStats(m.GetNamespace(), m.GetName()) {
			errs = append(errs, fmt.Errorf("failed to decode sandbox container metrics for sandbox %q: %s", one.GetAttributes().GetId(), noStats))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return status.Error(codes.Unknown, errors.Join(errs...).Error())
}

// windowsPodStats moves a pod's numbers from the Linux part of the message to the Windows part.
func windowsPodStats(p *runtimeapi.PodSandboxStats) {
	if p == nil || p.Linux == nil {
		return
	}
	l := p.Linux
	p.Linux = nil
	w := &runtimeapi.WindowsPodSandboxStats{Cpu: windowsCPU(l.Cpu), Memory: windowsMemory(l.Memory)}
	if l.Network != nil {
		w.Network = &runtimeapi.WindowsNetworkUsage{Timestamp: l.Network.Timestamp, DefaultInterface: windowsInterface(l.Network.DefaultInterface)}
		for _, i := range l.Network.Interfaces {
			w.Network.Interfaces = append(w.Network.Interfaces, windowsInterface(i))
		}
	}

	if l.Process != nil {
		w.Process = &runtimeapi.WindowsProcessUsage{Timestamp: l.Process.Timestamp, ProcessCount: l.Process.ProcessCount}
	}
	for _, c := range l.Containers {
		wc := &runtimeapi.WindowsContainerStats{Attributes: c.Attributes, Cpu: windowsCPU(c.Cpu), Memory: windowsMemory(c.Memory)}
		if c.WritableLayer != nil {
			wc.WritableLayer = &runtimeapi.WindowsFilesystemUsage{Timestamp: c.WritableLayer.Timestamp, FsId: c.WritableLayer.FsId, UsedBytes: c.WritableLayer.UsedBytes}
		}
		w.Containers = append(w.Containers, wc)
	}

	p.Windows = w
}

func windowsCPU(c *runtimeapi.CpuUsage) *runtimeapi.WindowsCpuUsage {
	if c == nil {
		return nil
	}
	return &runtimeapi.WindowsCpuUsage{Timestamp: c.Timestamp, UsageCoreNanoSeconds: c.UsageCoreNanoSeconds, UsageNanoCores: c.UsageNanoCores}
}

func windowsMemory(m *runtimeapi.MemoryUsage) *runtimeapi.WindowsMemoryUsage {
	if m == nil {
		return nil
	}
	return &runtimeapi.WindowsMemoryUsage{
		Timestamp: m.Timestamp, WorkingSetBytes: m.WorkingSetBytes, CommitMemoryBytes: m.UsageBytes,
	}
}

func windowsInterface(i *runtimeapi.NetworkInterfaceUsage) *runtimeapi.WindowsNetworkInterfaceUsage {
	if i == nil {
		return nil
	}
	return &runtimeapi.WindowsNetworkInterfaceUsage{
		Name: i.Name, RxBytes: i.RxBytes, TxBytes: i.TxBytes, RxPacketsDropped: i.RxErrors, TxPacketsDropped: i.TxErrors,
	}
}
