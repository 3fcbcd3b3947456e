package sources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"porthole.dev/porthole/kubelet/volume/files"
)

// OfConfigMap returns the sources of a volume that holds the keys of a ConfigMap.
func OfConfigMap(v *v1.Volume) ([]Source, bool) {
	s := v.ConfigMap
	if s == nil {
		return nil, false
	}
	return []Source{configMapSource{s.Name, newSelection(s.Items, s.DefaultMode, s.Optional)}}, true
}

// configMapSource is the keys of a ConfigMap as files.
type configMapSource struct {
	name string
	selection
}

func (s configMapSource) Need() Need { return Need{Object: ConfigMap, Name: s.name} }

// Files returns the selected keys of the ConfigMap, from data and binaryData. An optional ConfigMap that does not
// exist has no files; any other failure to read it is an error, so that files that were written before stay.
func (s configMapSource) Files(ctx context.Context, j Job) (files.Content, error) {
	if j.Objects == nil {
		return nil, fmt.Errorf("no API server to read configmap %q from", s.name)
	}
	cm, err := j.Objects.ConfigMap(ctx, j.Pod.Namespace, s.name)
	if apierrors.IsNotFound(err) && s.optional {
		return files.Content{}, nil
	}
	if err != nil {
		return nil, err
	}

	keys := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, text := range cm.Data {
		keys[k] = []byte(text)
	}
	for k, b := range cm.BinaryData {
		keys[k] = b
	}
	return s.pick("config", keys)
}
