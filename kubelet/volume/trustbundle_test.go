package volume

import (
	"bytes"
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

func TestTrustAnchors(t *testing.T) {
	all := []*certificatesv1beta1.ClusterTrustBundle{
		bundle("z", "", nil, "two", "one", "one"),
		bundle("example.com:s:b", "example.com/s", map[string]string{"live": "yes"}, "three", "two"),
		bundle("example.com:s:a", "example.com/s", nil, "one"),
		bundle("other.com:s:a", "other.com/s", map[string]string{"live": "yes"}, "four"),
	}
	name, signer, gone, yes := "z", "example.com/s", "gone", true
	live := &metav1.LabelSelector{MatchLabels: map[string]string{"live": "yes"}}

	for title, c := range map[string]struct {
		p    v1.ClusterTrustBundleProjection
		want []string
		err  string
	}{
		"by name, each certificate once": {p: v1.ClusterTrustBundleProjection{Name: &name},
			want: []string{"one", "two"}},
		"all of a signer": {p: v1.ClusterTrustBundleProjection{SignerName: &signer,
			LabelSelector: &metav1.LabelSelector{}}, want: []string{"one", "three", "two"}},
		"of a signer by label": {p: v1.ClusterTrustBundleProjection{SignerName: &signer,
			LabelSelector: live}, want: []string{"three", "two"}},
		"no selector selects none": {p: v1.ClusterTrustBundleProjection{SignerName: &signer},
			err: "combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		"none, optional": {p: v1.ClusterTrustBundleProjection{SignerName: &signer,
			Optional: &yes}},
		"a name that is not there": {p: v1.ClusterTrustBundleProjection{Name: &gone},
			err: `clustertrustbundle "gone" not found`},
		"a name that is not there, optional": {p: v1.ClusterTrustBundleProjection{Name: &gone, Optional: &yes}},
		"neither a name nor a signer":        {err: "requires either name or signerName"},
		"a selector that is none, by a wrong": {p: v1.ClusterTrustBundleProjection{SignerName: &signer,
			LabelSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
			err: "labelSelector of clusterTrustBundle"},
	} {
		got, err := trustAnchors(all, &c.p)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", title, err, c.err)
			}
			continue
		}
		var want bytes.Buffer
		for _, one := range c.want {
			want.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(one)}))
		}
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s: %v\n%s", title, err, got)
		}
	}
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
	o.told(TrustBundle)
	b.set(nil, bundle("z", "", nil, "two"))
	o.told(TrustBundle)
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
