package volume

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/files"
)

// written is a kind of volumes whose files the kubelet writes and keeps up to date. Containers can only read them.
type written struct {
	inFolder
	// onDisk is false for files that may be secret: they are kept in memory (on Linux; Windows has no such file
	// system).
	onDisk bool
	// sources returns where the files of a volume come from. ok is false if the volume is not of this kind.
	sources func(v *v1.Volume) (list []source, ok bool)
}

// source is where files of a volume come from. Most volumes have one; a projected volume has any number.
type source interface {
	need() need
	// files returns the files as they are now.
	files(ctx context.Context, j job) (files.Content, error)
}

// need is what the files of a source depend on: they change when it changes. The zero value is nothing.
type need struct {
	// object is the kind of an object (ConfigMap or Secret), name its name in the pod's namespace; both may be empty.
	// Of TrustBundle, which are the cluster's, and PodCertificate, which are the node's, there is no name.
	object, name string
	// token: the files hold a service account token, which expires.
	token bool
	// pod: the files show labels, annotations or resources of the pod itself.
	pod bool
}

func (k written) of(v *v1.Volume) bool {
	_, ok := k.sources(v)
	return ok
}

// prepare reads the files from their sources and writes those that differ.
func (k written) prepare(ctx context.Context, j job) error {
	list, _ := k.sources(j.volume)
	want := files.Content{}
	for _, s := range list {
		part, err := s.files(ctx, j)
		if err != nil {
			return err
		}
		if err := want.Merge(part); err != nil {
			return err
		}
	}
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

func (k written) makeFolder(dir string) error {
	if !k.onDisk {
		return disk.MountMemory(dir, 0, 0o755, nil)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	return nil
}

// selection is which keys of an object become which files. Without items, every key becomes a file of its name.
type selection struct {
	items []v1.KeyToPath
	mode  int32 // of files whose item has none
	// optional allows that the object, or a key of items, does not exist.
	optional bool
}

func newSelection(items []v1.KeyToPath, mode *int32, optional *bool) selection {
	s := selection{items: items, mode: v1.ConfigMapVolumeSourceDefaultMode, optional: optional != nil && *optional}
	if mode != nil {
		s.mode = *mode
	}
	return s
}

// pick returns the files of an object's keys. object is upstream's word for it in the error: config or secret.
func (s selection) pick(object string, keys map[string][]byte) (files.Content, error) {
	out := files.Content{}
	if len(s.items) == 0 {
		for k, data := range keys {
			out[k] = files.File{Data: data, Mode: s.mode}
		}
		return out, nil
	}

	for _, item := range s.items {
		data, ok := keys[item.Key]
		if !ok {
			if s.optional {
				continue
			}
			return nil, fmt.Errorf("references non-existent %s key: %s", object, item.Key)
		}
		f := files.File{Data: data, Mode: s.mode}
		if item.Mode != nil {
			f.Mode = *item.Mode
		}
		out[item.Path] = f
	}
	return out, nil
}
