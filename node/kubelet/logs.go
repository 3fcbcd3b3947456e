package kubelet

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/logs"
	"porthole.dev/porthole/kubelet/pod"
)

// rotator rotates the logs of the kubelet's containers as the configuration says. The defaults are upstream's: 5 files
// of 10 MiB, one worker, a check every 10 s.
func rotator(k *core.Kubelet, cfg *v1beta1.KubeletConfiguration,
	reopen func(ctx context.Context, id string) error) (*logs.Rotator, error) {
	size := resource.MustParse("10Mi")
	if cfg.ContainerLogMaxSize != "" {
		var err error
		if size, err = resource.ParseQuantity(cfg.ContainerLogMaxSize); err != nil {
			return nil, fmt.Errorf("containerLogMaxSize %q: %w", cfg.ContainerLogMaxSize, err)
		}
	}

	options := logs.Options{MaxBytes: size.Value(), MaxFiles: 5, Workers: 1, Every: 10 * time.Second, Reopen: reopen,
		Running: func() []logs.Container { return running(k.View()) }}
	if cfg.ContainerLogMaxFiles != nil {
		options.MaxFiles = int(*cfg.ContainerLogMaxFiles)
	}
	if cfg.ContainerLogMaxWorkers != nil {
		options.Workers = int(*cfg.ContainerLogMaxWorkers)
	}

	if cfg.ContainerLogMonitorInterval != nil {
		options.Every = cfg.ContainerLogMonitorInterval.Duration
	}
	return logs.New(options)
}

func running(pods []pod.View) []logs.Container {
	var out []logs.Container
	for _, p := range pods {
		for _, c := range p.Containers {
			if c.Running {
				out = append(out, logs.Container{ID: c.ID, Path: c.LogPath})
			}
		}
	}
	return out
}
