package volume

import (
	"fmt"
	"sort"
	"strconv"
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
			value, err = FieldValue(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = ResourceValue(pod, item.ResourceFieldRef.ContainerName, item.ResourceFieldRef, facts.Allocatable)
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

// FieldValue reads a field of the pod's metadata or spec as a fieldRef names it. Fields of status are not here.
func FieldValue(pod *v1.Pod, fieldPath string) (string, error) {
	if name, key, ok := subscript(fieldPath); ok {
		switch name {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", fieldPath)
	}
	switch fieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", fieldPath)
}

func subscript(p string) (name, key string, ok bool) {
	name, rest, found := strings.Cut(p, "['")
	if !found || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return name, strings.TrimSuffix(rest, "']"), true
}

func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		lines = append(lines, k+"="+strconv.Quote(v))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// ResourceValue reads requests or limits of a container, rounded up to the divisor. A limit that is not set is the
// node's allocatable amount. An empty container name means the only container.
func ResourceValue(pod *v1.Pod, container string, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	c := findContainer(pod, container)
	if c == nil {
		return "", fmt.Errorf("container %q not found", container)
	}
	return env.ContainerResource(c, ref, allocatable)
}

func findContainer(pod *v1.Pod, name string) *v1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name || name == "" && len(pod.Spec.Containers) == 1 {
			return c
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c
		}
	}
	return nil
}
