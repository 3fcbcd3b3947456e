package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"porthole.dev/porthole/kubelet/volume/files"
)

// configMapKind is the kind of volumes that hold the keys of a ConfigMap.
var configMapKind = written{inFolder: "kubernetes.io~configmap", onDisk: true,
	sources: func(v *v1.Volume) ([]source, bool) {
		s := v.ConfigMap
		if s == nil {
			return nil, false
		}
		return []source{configMapSource{s.Name, newSelection(s.Items, s.DefaultMode, s.Optional)}}, true
	}}

// configMapSource is the keys of a ConfigMap as files.
type configMapSource struct {
	name string
	selection
}

func (s configMapSource) need() need { return need{object: ConfigMap, name: s.name} }

// files returns the selected keys of the ConfigMap, from data and binaryData. An optional ConfigMap that does not
// exist has no files; any other failure to read it is an error, so that files that were written before stay.
func (s configMapSource) files(ctx context.Context, j job) (files.Content, error) {
	if j.objects == nil {
		return nil, fmt.Errorf("no API server to read configmap %q from", s.name)
	}
	cm, err := j.objects.ConfigMap(ctx, j.pod.Namespace, s.name)
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
