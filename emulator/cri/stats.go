package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats is the same message on both systems; Windows has no swap, pressure or I/O numbers.
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

func windowsStats(c *runtimeapi.ContainerStats) {
	if c == nil {
		return
	}
	c.Swap, c.Io = nil, nil
	if c.Cpu != nil {
		c.Cpu.Psi = nil
	}
	if c.Memory != nil {
		c.Memory.Psi = nil
	}
}

func (s service) PodSandboxStats(ctx context.Context, r *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	answer, err := s.runtime.PodSandboxStats(ctx, r)
	if err != nil {
		return nil, err
	}
	windowsPodStats(answer.Stats)
	return answer, nil
}

func (s service) ListPodSandboxStats(ctx context.Context, r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	answer, err := s.runtime.ListPodSandboxStats(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, p := range answer.Stats {
		windowsPodStats(p)
	}
	return answer, nil
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
		Timestamp: m.Timestamp, WorkingSetBytes: m.WorkingSetBytes, AvailableBytes: m.AvailableBytes,
		PageFaults: m.PageFaults, CommitMemoryBytes: m.UsageBytes,
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
