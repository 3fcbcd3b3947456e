package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
)

// bareBatch makes pods by the calls that every kubelet must make, and nothing else.
func bareBatch(w *testkit.World) func(context.Context, int) ([]float64, float64, error) {
	serial := int(time.Now().Unix() % 1e6)
	return func(ctx context.Context, n int) ([]float64, float64, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		serial++
		each, errs, ids := make([]float64, n), make([]error, n), make([]string, n)
		began := time.Now()
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				ids[i], errs[i] = barePod(ctx, w, fmt.Sprintf("floor-%d-%d", serial, i))
				each[i] = time.Since(began).Seconds()
			})
		}
		all.Wait()
		total := time.Since(began).Seconds()
		for _, id := range ids {
			if id == "" {
				continue
			}
			_, stopErr := w.Runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
			_, removeErr := w.Runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
			errs = append(errs, stopErr, removeErr)
		}
		return each, total, errors.Join(errs...)
	}
}

func barePod(ctx context.Context, w *testkit.World, name string) (sandbox string, err error) {
	logs := w.Path("log", "floor", name)
	if err := os.MkdirAll(logs+"/app", 0o755); err != nil {
		return "", err
	}
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: name},
		Hostname:     name,
		LogDirectory: logs,
		DnsConfig:    &cri.DNSConfig{Servers: []string{"10.96.0.10"}},
		Linux:        &cri.LinuxPodSandboxConfig{CgroupParent: w.CgroupRoot() + "/kubepods/besteffort/" + name},
	}
	box, err := w.Runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", fmt.Errorf("running a sandbox: %w", err)
	}
	made, err := w.Runtime.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: box.PodSandboxId, SandboxConfig: config,
		Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: testkit.TestImage},
			Args: []string{"sleep"}, LogPath: "app/0.log", Linux: &cri.LinuxContainerConfig{}}})
	if err != nil {
		return box.PodSandboxId, fmt.Errorf("creating a container: %w", err)
	}
	if _, err := w.Runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return box.PodSandboxId, fmt.Errorf("starting a container: %w", err)
	}
	if _, err := w.Runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: made.ContainerId}); err != nil {
		return box.PodSandboxId, fmt.Errorf("reading a container's status: %w", err)
	}
	return box.PodSandboxId, nil
}
