package sources

import (
	"bytes"
	"context"
	"encoding/pem"
	"reflect"
	"strings"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pemOf returns certificates as PEM, of bytes that no one takes for one: their content is never looked at.
func pemOf(of ...string) string {
	var b strings.Builder
	for _, text := range of {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"made": "here"},
			Bytes: []byte(text)}))
	}
	return b.String()
}

func bundleOf(name, signer string, labels map[string]string, certs ...string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer,
			TrustBundle: "a comment\n" + pemOf(certs...)}}
}

func TestTrustAnchors(t *testing.T) {
	all := []*certificatesv1beta1.ClusterTrustBundle{
		bundleOf("z", "", nil, "two", "one", "one"),
		bundleOf("example.com:s:b", "example.com/s", map[string]string{"live": "yes"}, "three", "two"),
		bundleOf("example.com:s:a", "example.com/s", nil, "one"),
		bundleOf("other.com:s:a", "other.com/s", map[string]string{"live": "yes"}, "four"),
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

// TestProjections asks of every field of v1.VolumeProjection that it is a source, and that one without any says so.
func TestProjections(t *testing.T) {
	all := reflect.TypeFor[v1.VolumeProjection]()
	for i := range all.NumField() {
		field := all.Field(i)
		var p v1.VolumeProjection
		reflect.ValueOf(&p).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		s := projectedSource(&p, 0, nil)
		if _, unknown := s.(unknownSource); unknown {
			t.Errorf("%s is not supported", field.Name)
		} else if s.Need() == (Need{}) {
			t.Errorf("%s: files that depend on nothing are never rewritten", field.Name)
		}
	}

	_, err := projectedSource(&v1.VolumeProjection{}, 0, nil).Files(context.Background(), Job{})
	if want := "this type of projected source is not supported"; err == nil || err.Error() != want {
		t.Errorf("a source of no type: %v, want %s", err, want)
	}
}
