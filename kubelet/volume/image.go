package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// imageKind is the kind of volumes that are the files of an image. The runtime mounts them: the kubelet only has the
// image pulled, as it does for a container.
type imageKind struct{ noFolder }

func (imageKind) of(v *v1.Volume) bool { return v.Image != nil }

// An empty path means that the runtime mounts the volume.
func (imageKind) path(job) (string, error) { return "", nil }

func (imageKind) prepare(context.Context, job) error { return nil }
