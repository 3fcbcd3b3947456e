package volume

import (
	"context"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/volume/sources"
)

// certificates as PEM, of bytes that no one takes for one: their content is never looked at.
func certificates(of ...string) string {
	var b strings.Builder
	for _, text := range of {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"made": "here"},
			Bytes: []byte(text)}))
	}
	return b.String()
}

func bundle(name, signer string, labels map[string]string, certs ...string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer,
			TrustBundle: "a comment\n" + certificates(certs...)}}
}

// bundles is a TrustBundles that tests fill.
type bundles struct {
	mu   sync.Mutex
	list []*certificatesv1beta1.ClusterTrustBundle
	err  error
}

func (b *bundles) TrustBundles(context.Context) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list, b.err
}

// The file follows its bundle, belongs to the pod's one user, and stays as it was when the bundles cannot be read.
func TestTrustBundleVolume(t *testing.T) {
	b, o := &bundles{}, newObjects()
	name := "z"
	v := vol("v", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &name, Path: "ca/all.pem"}}}}})
	pod := podWith(v)

	off := newTestManager(t, o)
	if err := off.Prepare(t.Context(), pod, Facts{}); err == nil ||
		!strings.Contains(err.Error(), "feature gate ClusterTrustBundleProjection") {
		t.Errorf("without the gate: %v", err)
	}

	m := newTestManager(t, o)
	m.opts.TrustBundles = b
	if err := m.Prepare(t.Context(), pod, Facts{}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Fatalf("before the bundle is there: %v", err)
	}
	b.set(nil, bundle("z", "", nil, "one"))
	if err := m.Prepare(t.Context(), pod, Facts{}); err != nil {
		t.Fatal(err)
	}
	at, _ := m.HostPath(pod.UID, "v")
	content := func() string {
		text, _ := os.ReadFile(filepath.Join(at, "ca", "all.pem"))
		return string(text)
	}
	first := content()
	if block, rest := pem.Decode([]byte(first)); block == nil || string(block.Bytes) != "one" || len(rest) > 0 ||
		len(block.Headers) > 0 {
		t.Fatalf("the file has %q", first)
	}

	b.set(errors.New("away"))
	o.told(sources.TrustBundle)
	b.set(nil, bundle("z", "", nil, "two"))
	o.told(sources.TrustBundle)
	wait.True(t, 10*time.Second, "the file follows the bundle",
		func() bool { return content() != first && content() != "" })
}

func (b *bundles) set(err error, list ...*certificatesv1beta1.ClusterTrustBundle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list, b.err = list, err
}

// told says to those who watch a kind of the cluster that something has changed.
func (o *objects) told(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, changed := range o.watchers[objectRef{kind: kind}] {
		changed()
	}
}
