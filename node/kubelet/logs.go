package kubelet

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/kubelet/logs"
	"porthole.dev/porthole/kubelet/pod"
)

// logRotation is the component that rotates the logs of the containers that run. pods and reopen are called when pods
// are there.
func logRotation(cfg *v1beta1.KubeletConfiguration, pods func() []pod.View,
	reopen func(context.Context, string) error) component.Component {
	var r *logs.Rotator
	return component.Component{Name: "log rotation", Needs: []string{"pods"},
		Start: func(context.Context) (err error) { r, err = rotator(cfg, pods, reopen); return err },
		Run:   func(ctx context.Context) error { r.Run(ctx); return nil }}
}

// rotator rotates the logs as the configuration says. The defaults are upstream's: 5 files of 10 MiB, one worker, a
// check every 10 s.
func rotator(cfg *v1beta1.KubeletConfiguration, pods func() []pod.View,
	reopen func(context.Context, string) error) (r *logs.Rotator, err error) {
	size := resource.MustParse("10Mi")
	if cfg.ContainerLogMaxSize != "" {
		if size, err = resource.ParseQuantity(cfg.ContainerLogMaxSize); err != nil {
			return nil, fmt.Errorf("containerLogMaxSize %q: %w", cfg.ContainerLogMaxSize, err)
		}
	}

	options := logs.Options{MaxBytes: size.Value(), MaxFiles: 5, Workers: 1, Every: 10 * time.Second,
		Reopen:  reopen,
		Running: func() []logs.Container { return running(pods()) }}
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

// running are the containers whose logs may grow.
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
