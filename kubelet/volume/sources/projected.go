package sources

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/files"
)

// OfProjected returns the sources of a volume that holds the files of several sources in one folder.
func OfProjected(v *v1.Volume) ([]Source, bool) {
	p := v.Projected
	if p == nil {
		return nil, false
	}
	list := make([]Source, 0, len(p.Sources))
	for i := range p.Sources {
		list = append(list, projectedSource(&p.Sources[i], i, p.DefaultMode))
	}
	return list, true
}

// projectedSource returns one source of a projected volume, the one with that index. mode is that of the volume; nil
// is 0644. It is the one list of the sources that are supported.
func projectedSource(p *v1.VolumeProjection, index int, mode *int32) Source {
	switch {
	case p.ConfigMap != nil:
		return configMapSource{p.ConfigMap.Name, newSelection(p.ConfigMap.Items, mode, p.ConfigMap.Optional)}
	case p.Secret != nil:
		return secretSource{p.Secret.Name, newSelection(p.Secret.Items, mode, p.Secret.Optional)}
	case p.DownwardAPI != nil:
		return downwardSource{p.DownwardAPI.Items, mode}
	case p.ServiceAccountToken != nil:
		return tokenSource{p.ServiceAccountToken, mode}
	case p.ClusterTrustBundle != nil:
		return bundleSource{p.ClusterTrustBundle, mode}
	case p.PodCertificate != nil:
		return certificateSource{p.PodCertificate, index, mode}
	}
	return unknownSource{}
}

// unknownSource is a source that is not supported: its volume fails.
type unknownSource struct{}

func (unknownSource) Need() Need { return Need{} }

func (unknownSource) Files(context.Context, Job) (files.Content, error) {
	return nil, errors.New("this type of projected source is not supported")
}
