package sources

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"porthole.dev/porthole/kubelet/volume/files"
)

// TrustBundle is the kind of the cluster's bundles of certificates of authorities. The manager watches all of
// them at once, for the empty namespace and name.
const TrustBundle = "ClusterTrustBundle"

// TrustBundles reads them; internal/kube implements it. The result is shared: do not change it.
type TrustBundles interface {
	TrustBundles(ctx context.Context) ([]*certificatesv1beta1.ClusterTrustBundle, error)
}

// errBundlesOff is what the user of a volume with a bundle sees on a node that was not told to have the feature, which
// upstream has switched off too.
var errBundlesOff = errors.New(
	"clusterTrustBundle is switched off on this node: set the kubelet's feature gate ClusterTrustBundleProjection, " +
		"and those of the API server (ClusterTrustBundle, ClusterTrustBundleProjection)")

// bundleSource is the certificates of trust bundles as one file. It is only a source of projected volumes.
type bundleSource struct {
	projection *v1.ClusterTrustBundleProjection
	mode       *int32 // of the file; nil is 0644
}

func (bundleSource) Need() Need { return Need{Object: TrustBundle} }

func (s bundleSource) Files(ctx context.Context, j Job) (files.Content, error) {
	if j.Bundles == nil {
		return nil, errBundlesOff
	}
	all, err := j.Bundles.TrustBundles(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading ClusterTrustBundles: %w", err)
	}
	anchors, err := trustAnchors(all, s.projection)
	if err != nil {
		return nil, err
	}
	f := files.File{Data: anchors, Mode: v1.ProjectedVolumeSourceDefaultMode}
	if s.mode != nil {
		f.Mode = *s.mode
	}
	restrictToken(&f, j.Pod)
	return files.Content{s.projection.Path: f}, nil
}

// trustAnchors returns the certificates of the bundles that a projection selects, each once, as PEM. They are in the
// order of their bytes; upstream's order is another one after each start of its kubelet, so that nobody may depend on
// it.
func trustAnchors(all []*certificatesv1beta1.ClusterTrustBundle, p *v1.ClusterTrustBundleProjection) ([]byte, error) {
	chosen, err := chooseBundles(all, p)
	if err != nil {
		return nil, err
	}
	if len(chosen) == 0 && (p.Optional == nil || !*p.Optional) {
		if p.Name != nil {
			return nil, fmt.Errorf("clustertrustbundle %q not found", *p.Name)
		}
		// upstream's words
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}

	certificates := map[string]bool{}
	for _, b := range chosen {
		rest := []byte(b.Spec.TrustBundle)
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			certificates[string(block.Bytes)] = true
		}
	}
	out := []byte{}
	for _, der := range slices.Sorted(maps.Keys(certificates)) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return out, nil
}

// chooseBundles returns those that a projection selects: one by its name, or those of a signer whose labels fit. A
// selector that is not there selects none, an empty one all of the signer.
func chooseBundles(all []*certificatesv1beta1.ClusterTrustBundle,
	p *v1.ClusterTrustBundleProjection) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	var fits func(*certificatesv1beta1.ClusterTrustBundle) bool
	switch {
	case p.Name != nil:
		fits = func(b *certificatesv1beta1.ClusterTrustBundle) bool { return b.Name == *p.Name }
	case p.SignerName != nil:
		selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("labelSelector of clusterTrustBundle: %w", err)
		}
		fits = func(b *certificatesv1beta1.ClusterTrustBundle) bool {
			return b.Spec.SignerName == *p.SignerName && selector.Matches(labels.Set(b.Labels))
		}
	default:
		// upstream's words
		return nil, errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}

	var out []*certificatesv1beta1.ClusterTrustBundle
	for _, b := range all {
		if fits(b) {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *certificatesv1beta1.ClusterTrustBundle) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
