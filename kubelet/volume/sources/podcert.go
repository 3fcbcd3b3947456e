package sources

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/files"
	"porthole.dev/porthole/kubelet/volume/podcert"
)

// PodCertificate is the kind of the requests for certificates of pods. The manager watches all those of this
// node at once, for the empty namespace and name.
const PodCertificate = "PodCertificateRequest"

// ErrCertificatesOff is what the user of a volume with a certificate sees on a node that was not told to have the
// feature, which upstream has switched off too.
var ErrCertificatesOff = errors.New(
	"podCertificate is switched off on this node: set the feature gate PodCertificateRequest of the kubelet and of " +
		"the API server, which also has to serve certificates.k8s.io/v1beta1")

// certificateSource is a private key of the pod's own and a certificate for it. It is only a source of projected
// volumes.
type certificateSource struct {
	projection *v1.PodCertificateProjection
	index      int    // of the source in its volume
	mode       *int32 // of the files; nil is 0644
}

func (certificateSource) Need() Need { return Need{Object: PodCertificate} }

func (s certificateSource) Files(ctx context.Context, j Job) (files.Content, error) {
	if j.Certificate == nil {
		return nil, ErrCertificatesOff
	}
	key, chain, err := j.Certificate(ctx, podcert.Key{Volume: j.Volume, Index: s.index}, s.projection)
	if err != nil {
		return nil, err
	}

	out, p := files.Content{}, s.projection
	// add adds one of the files that the projection names; an empty path is a file that nobody
	// wants.
	add := func(path string, parts ...[]byte) error {
		if path == "" {
			return nil
		}
		f := files.File{Mode: v1.ProjectedVolumeSourceDefaultMode}
		if s.mode != nil {
			f.Mode = *s.mode
		}
		for _, part := range parts {
			f.Data = append(f.Data, part...)
		}
		restrictToken(&f, j.Pod)
		return out.Merge(files.Content{path: f})
	}
	err = errors.Join(add(p.CredentialBundlePath, key, chain), add(p.KeyPath, key), add(p.CertificateChainPath, chain))
	return out, err
}
