package sources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"porthole.dev/porthole/kubelet/volume/files"
)

// OfSecret returns the sources of a volume that holds the keys of a Secret.
func OfSecret(v *v1.Volume) ([]Source, bool) {
	s := v.Secret
	if s == nil {
		return nil, false
	}
	return []Source{secretSource{s.SecretName, newSelection(s.Items, s.DefaultMode, s.Optional)}}, true
}

// secretSource is the keys of a Secret as files.
type secretSource struct {
	name string
	selection
}

func (s secretSource) Need() Need { return Need{Object: Secret, Name: s.name} }

func (s secretSource) Files(ctx context.Context, j Job) (files.Content, error) {
	if j.Objects == nil {
		return nil, fmt.Errorf("no API server to read secret %q from", s.name)
	}
	secret, err := j.Objects.Secret(ctx, j.Pod.Namespace, s.name)
	if apierrors.IsNotFound(err) && s.optional {
		return files.Content{}, nil
	}
	if err != nil {
		return nil, err
	}
	return s.pick("secret", secret.Data)
}
