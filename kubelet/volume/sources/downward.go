package sources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/env"
	"porthole.dev/porthole/kubelet/volume/files"
)

// OfDownward returns the sources of a volume that shows fields of the pod itself (the downward API).
func OfDownward(v *v1.Volume) ([]Source, bool) {
	s := v.DownwardAPI
	if s == nil {
		return nil, false
	}
	return []Source{downwardSource{s.Items, s.DefaultMode}}, true
}

// downwardSource is fields of the pod as files.
type downwardSource struct {
	items []v1.DownwardAPIVolumeFile
	mode  *int32 // of files whose item has none; nil is 0644
}

func (downwardSource) Need() Need { return Need{Pod: true} }

// Files returns one file per item. A mode of the item counts before that of the volume. One field that cannot be read
// fails the whole volume.
func (s downwardSource) Files(_ context.Context, j Job) (files.Content, error) {
	out := files.Content{}
	for _, item := range s.items {
		f := files.File{Mode: v1.DownwardAPIVolumeSourceDefaultMode}
		if s.mode != nil {
			f.Mode = *s.mode
		}
		if item.Mode != nil {
			f.Mode = *item.Mode
		}

		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = env.Metadata(j.Pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = env.ResourceField(j.Pod, onlyContainer(j.Pod), item.ResourceFieldRef, j.Allocatable)
		default:
			err = fmt.Errorf("file %q has neither fieldRef nor resourceFieldRef", item.Path)
		}
		if err != nil {
			return nil, err
		}
		f.Data = []byte(value)
		out[item.Path] = f
	}
	return out, nil
}

// onlyContainer returns the container that a resource reference without a container name means: the only one. It
// returns nil if the pod has several.
func onlyContainer(pod *v1.Pod) *v1.Container {
	if len(pod.Spec.Containers) == 1 {
		return &pod.Spec.Containers[0]
	}
	return nil
}
