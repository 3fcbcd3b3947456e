package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/paths"
	"porthole.dev/porthole/kubelet/volume/sources"
	"porthole.dev/porthole/kubelet/volume/storage"
)

// kinds lists every type of volume that is supported. No volume is of more than one kind.
var kinds = []kind{
	hostPathKind{},
	emptyDirKind{inFolder: "kubernetes.io~empty-dir"},
	written{inFolder: "kubernetes.io~configmap", onDisk: true, sources: sources.OfConfigMap},
	written{inFolder: "kubernetes.io~secret", sources: sources.OfSecret},
	written{inFolder: "kubernetes.io~downward-api", sources: sources.OfDownward},
	written{inFolder: "kubernetes.io~projected", sources: sources.OfProjected},
	imageKind{},
	claimKind{},
}

// kindOf returns the kind of a volume, nil if its type is not supported.
func kindOf(v *v1.Volume) kind {
	for _, k := range kinds {
		if k.of(v) {
			return k
		}
	}
	return nil
}

// kindAt returns the kind whose volumes are in the folder called plugin. A folder that no kind has, which another
// kubelet may have left, gets a kind that can tear it down.
func kindAt(plugin string) interface {
	teardown(ctx context.Context, dir string) error
} {
	for _, k := range kinds {
		if k.plugin() == plugin {
			return k
		}
	}
	return inFolder(plugin)
}

// needsOf returns what the files of all the pod's volumes depend on.
func needsOf(pod *v1.Pod) (needs []sources.Need) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		k, ok := kindOf(v).(written)
		if !ok {
			continue
		}
		list, _ := k.sources(v)
		for _, s := range list {
			if n := s.Need(); n != (sources.Need{}) {
				needs = append(needs, n)
			}
		}
	}
	return needs
}

// path returns where on the node the volume is, or "" if the runtime mounts it without our help.
func (j job) path() (string, error) {
	k := kindOf(j.volume)
	if k == nil {
		return "", storage.Unsupported(&j.volume.VolumeSource)
	}
	return k.path(j)
}

// prepare makes the volume ready, whatever its kind.
func (j job) prepare(ctx context.Context) error {
	if err := paths.CheckVolumeName(j.volume.Name); err != nil {
		return err
	}
	k := kindOf(j.volume)
	if k == nil {
		return storage.Unsupported(&j.volume.VolumeSource)
	}

	if k.plugin() != "" { // only the kubelet may enter the folder above the volume
		if err := os.MkdirAll(filepath.Join(j.volumes, k.plugin()), 0o750); err != nil {
			return fmt.Errorf("making volume folder: %w", err)
		}
	}
	return k.prepare(ctx, j)
}
