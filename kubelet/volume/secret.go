package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"porthole.dev/porthole/kubelet/volume/files"
)

// secretKind is the kind of volumes that hold the keys of a Secret.
var secretKind = written{inFolder: "kubernetes.io~secret", sources: func(v *v1.Volume) ([]source, bool) {
	s := v.Secret
	if s == nil {
		return nil, false
	}
	return []source{secretSource{s.SecretName, newSelection(s.Items, s.DefaultMode, s.Optional)}}, true
}}

// secretSource is the keys of a Secret as files.
type secretSource struct {
	name string
	selection
}

func (s secretSource) need() need { return need{object: Secret, name: s.name} }

func (s secretSource) files(ctx context.Context, j job) (files.Content, error) {
	if j.objects == nil {
		return nil, fmt.Errorf("no API server to read secret %q from", s.name)
	}
	secret, err := j.objects.Secret(ctx, j.pod.Namespace, s.name)
	if apierrors.IsNotFound(err) && s.optional {
		return files.Content{}, nil
	}
	if err != nil {
		return nil, err
	}
	return s.pick("secret", secret.Data)
}
