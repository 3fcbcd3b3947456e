package volume

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/files"
	"porthole.dev/porthole/kubelet/volume/sources"
)

// written is a kind of volumes whose files the kubelet writes and keeps up to date. Containers can only read them.
type written struct {
	inFolder
	// onDisk is false for files that may be secret: they are kept in memory (on Linux; Windows has no such file
	// system).
	onDisk bool
	// sources returns where the files of a volume come from. ok is false if the volume is not of this kind.
	sources func(v *v1.Volume) (list []sources.Source, ok bool)
}

func (k written) of(v *v1.Volume) bool {
	_, ok := k.sources(v)
	return ok
}

// prepare reads the files from their sources and writes those that differ.
func (k written) prepare(ctx context.Context, j job) error {
	list, _ := k.sources(j.volume)
	from := sources.Job{API: j.from, Pod: j.pod, Volume: j.volume.Name, Allocatable: j.facts.Allocatable}
	want := files.Content{}
	for _, s := range list {
		part, err := s.Files(ctx, from)
		if err != nil {
			return err
		}
		if err := want.Merge(part); err != nil {
			return err
		}
	}
	// All sources are read before anything is written: a missing one leaves the files as they are.
	if err := want.Check(j.windows); err != nil {
		return err
	}

	dir := k.dir(j)
	if err := k.makeFolder(dir); err != nil {
		return err
	}
	if err := disk.SetRootAccess(dir, j.group()); err != nil {
		return err
	}
	changed, err := files.Write(dir, want, files.Access{Group: j.group()})
	if changed && err == nil {
		klog.FromContext(ctx).V(4).
			Info("Wrote volume", "pod", klog.KObj(j.pod), "volume", j.volume.Name, "files", len(want))
	}
	return err
}

// makeFolder makes the folder in memory, unless the files may be on the disk.
func (k written) makeFolder(dir string) error {
	if !k.onDisk {
		return disk.MountMemory(dir, 0, 0o755, nil)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	return nil
}
