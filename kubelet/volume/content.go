package volume

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/env"
)

// file is one file that a volume should hold.
type file struct {
	data []byte
	mode int32
	uid  *int64 // owner; nil leaves root
}

// content maps slash-separated relative paths to files.
type content map[string]file

// merge adds other's files and refuses two sources for one path.
func (c content) merge(other content) error {
	for p, f := range other {
		if _, twice := c[p]; twice {
			return fmt.Errorf("conflicting duplicate paths: %q", p)
		}
		c[p] = f
	}
	return nil
}

func (c content) check(windows bool) error {
	seen := map[string]string{}
	for p := range c {
		if err := checkFilePath(p, windows); err != nil {
			return err
		}
		if windows {
			if other, twice := seen[strings.ToLower(p)]; twice {
				return fmt.Errorf("paths %q and %q are the same file on Windows", other, p)
			}
			seen[strings.ToLower(p)] = p
		}
	}
	return nil
}

// selection says which keys of an object become which files.
type selection struct {
	items    []v1.KeyToPath
	mode     int32
	optional bool
}

func newSelection(items []v1.KeyToPath, mode *int32, optional *bool) selection {
	s := selection{items: items, mode: v1.ConfigMapVolumeSourceDefaultMode, optional: optional != nil && *optional}
	if mode != nil {
		s.mode = *mode
	}
	return s
}

func (s selection) pick(what string, keys map[string][]byte) (content, error) {
	out := content{}
	if len(s.items) == 0 {
		for k, data := range keys {
			out[k] = file{data: data, mode: s.mode}
		}
		return out, nil
	}
	for _, item := range s.items {
		data, ok := keys[item.Key]
		if !ok {
			if s.optional {
				continue
			}
			return nil, fmt.Errorf("references non-existent %s key: %s", what, item.Key)
		}
		f := file{data: data, mode: s.mode}
		if item.Mode != nil {
			f.mode = *item.Mode
		}
		out[item.Path] = f
	}
	return out, nil
}

func configMapKeys(cm *v1.ConfigMap) map[string][]byte {
	keys := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, s := range cm.Data {
		keys[k] = []byte(s)
	}
	for k, b := range cm.BinaryData {
		keys[k] = b
	}
	return keys
}

// downwardContent makes the files of a downwardAPI source.
func downwardContent(pod *v1.Pod, facts Facts, items []v1.DownwardAPIVolumeFile, defaultMode *int32) (content, error) {
	out := content{}
	for _, item := range items {
		f := file{mode: v1.DownwardAPIVolumeSourceDefaultMode}
		if defaultMode != nil {
			f.mode = *defaultMode
		}
		if item.Mode != nil {
			f.mode = *item.Mode
		}
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = env.Metadata(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = env.ResourceField(pod, onlyContainer(pod), item.ResourceFieldRef, facts.Allocatable)
		default:
			err = fmt.Errorf("file %q has neither fieldRef nor resourceFieldRef", item.Path)
		}
		if err != nil {
			return nil, err
		}
		f.data = []byte(value)
		out[item.Path] = f
	}
	return out, nil
}

// onlyContainer is the container that a reference without a name means: the only one.
func onlyContainer(pod *v1.Pod) *v1.Container {
	if len(pod.Spec.Containers) == 1 {
		return &pod.Spec.Containers[0]
	}
	return nil
}
