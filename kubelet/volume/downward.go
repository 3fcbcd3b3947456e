package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/env"
	"porthole.dev/porthole/kubelet/volume/files"
)

// downwardKind is the kind of volumes that show fields of the pod itself (the downward API).
var downwardKind = written{inFolder: "kubernetes.io~downward-api", sources: func(v *v1.Volume) ([]source, bool) {
	s := v.DownwardAPI
	if s == nil {
		return nil, false
	}
	return []source{downwardSource{s.Items, s.DefaultMode}}, true
}}

// downwardSource is fields of the pod as files.
type downwardSource struct {
	items []v1.DownwardAPIVolumeFile
	mode  *int32 // of files whose item has none; nil is 0644
}

func (downwardSource) need() need { return need{pod: true} }

// files returns one file per item. A mode of the item counts before that of the volume. One field that cannot be read
// fails the whole volume.
func (s downwardSource) files(_ context.Context, j job) (files.Content, error) {
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
			value, err = env.Metadata(j.pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = env.ResourceField(j.pod, onlyContainer(j.pod), item.ResourceFieldRef, j.facts.Allocatable)
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
