package kubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"porthole.dev/porthole/internal/testkit/wait"
)

// The signers of the test: one signs, the others refuse each request.
const (
	signs  = "example.com/signs"
	denies = "example.com/denies"
	fails  = "example.com/fails"
)

// testPodCertificates: a pod gets a key, and the certificate that a signer made for it, with the same modes from our
// kubelet and from upstream's; what a signer denies or fails is said the same way. Ours replaces a certificate in
// time, by a clock that is set.
func testPodCertificates(t *testing.T, w *world) {
	signing, stop := context.WithCancel(w.ctx)
	defer stop()
	s := newSigner(t, w)
	go s.run(signing)
	w.KubeletConfig = map[string]any{"featureGates": map[string]bool{"PodCertificateRequest": true}}
	defer func() {
		w.kubelet.Stop()
		w.KubeletConfig = nil
		w.startKubelet()
	}()

	sameOnBoth(t, w, func(upstream bool) string {
		saw := s.pods(t, upstream)
		for _, signer := range []string{denies, fails} {
			saw += s.refused(t, signer, upstream)
		}
		return saw
	})
	s.renewed(t)
}

// pods makes a pod with certificates, and returns what its volume has.
func (s *signer) pods(t *testing.T, upstream bool) string {
	group := int64(1234)
	name := fmt.Sprintf("certified-%v", upstream)
	p := certified(name, signs)
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	reader := container("reader", "cat", "/certs/both.pem")
	reader.VolumeMounts = p.Spec.Containers[0].VolumeMounts
	p.Spec.InitContainers = []v1.Container{reader}
	s.w.create(t, p)
	p = s.w.until(t, 60*time.Second, name, ready) // a pod that has ended loses its volumes
	bundle := s.w.log(t, p, reader.Name)
	pair, err := tls.X509KeyPair([]byte(bundle), []byte(bundle))
	if err != nil {
		t.Errorf("upstream %v: the pod reads %s: %v", upstream, bundle, err)
	} else if len(pair.Certificate) != 2 || !strings.HasPrefix(bundle, "-----BEGIN PRIVATE KEY-----") {
		t.Errorf("upstream %v: %d certificates in %s", upstream, len(pair.Certificate), bundle)
	}
	defer func() { s.w.remove(t, name, nil); s.w.untilGone(t, name) }()

	out := ""
	dir := s.volume(p)
	must(t, fs.WalkDir(os.DirFS(filepath.Join(dir, "..data")), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			st := info.Sys().(*syscall.Stat_t)
			out += fmt.Sprintf("%s %v %d:%d\n", path, info.Mode(), st.Uid, st.Gid)
		}
		return err
	}))
	return out
}

func (s *signer) volume(p *v1.Pod) string {
	return filepath.Join(s.w.KubeletRoot(node), "pods", string(p.UID), "volumes", "kubernetes.io~projected", "certs")
}

func certified(name, signer string) *v1.Pod {
	p := newPod(name, "sleep")
	p.Spec.Volumes = []v1.Volume{{Name: "certs",
		VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{PodCertificate: &v1.PodCertificateProjection{SignerName: signer, KeyType: "ECDSAP256",
				CredentialBundlePath: "both.pem", KeyPath: "sub/key.pem", CertificateChainPath: "sub/chain.pem"}}}}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "certs", MountPath: "/certs"}}
	return p
}

// refused makes a pod whose certificate is refused, and returns what its events say.
func (s *signer) refused(t *testing.T, signer string, upstream bool) string {
	name := fmt.Sprintf("%s-%v", filepath.Base(signer), upstream)
	p := s.w.create(t, certified(name, signer))
	defer func() { s.w.remove(t, name, nil); s.w.untilGone(t, name) }()

	condition, verb := certificatesv1beta1.PodCertificateRequestConditionTypeDenied, "was denied"
	if signer == fails {
		condition, verb = certificatesv1beta1.PodCertificateRequestConditionTypeFailed, "failed"
	}
	wants := []struct{ reason, text string }{
		{condition, verb + `, reason="Because", message="it is a test"`},
		{"FailedMount", `PodCertificateRequest was permanently ` + strings.ToLower(condition) +
			`: reason="Because" message="it is a test"`},
	}

	out := ""
	must(t, wait.For(s.w.ctx, 90*time.Second, "events of "+name, func(ctx context.Context) error {
		list, err := s.w.Client.CoreV1().Events(namespace).
			List(ctx,
				metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(p.UID)).
					String()})
		if err != nil {
			return err
		}
		out = ""
		for _, want := range wants {
			for _, e := range list.Items {
				if e.Reason == want.reason && strings.Contains(e.Message, want.text) {
					out += fmt.Sprintf("%s %s: %s\n", e.Type, e.Reason, want.text)
					break
				}
			}
		}
		if strings.Count(out, "\n") < len(wants) {
			return fmt.Errorf("they are %s", eventTexts(list.Items))
		}
		return nil
	}))
	return out
}

func eventTexts(list []v1.Event) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s %s: %s\n", e.Type, e.Reason, e.Message)
	}
	return b.String()
}

// renewed sets the kubelet's clock to when a certificate is due. The pod of another certificate makes the kubelet look.
func (s *signer) renewed(t *testing.T) {
	p := s.w.create(t, certified("renewed", signs))
	s.w.until(t, 30*time.Second, "renewed", ready)
	file := filepath.Join(s.volume(p), "both.pem")
	before, err := os.ReadFile(file)
	must(t, err)

	// the signer's certificates are due after 10, and at most 5 of jitter
	err = s.w.kubelet.ShiftClock(30 * time.Minute)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	s.w.create(t, certified("later", signs))
	must(t, wait.For(s.w.ctx, 30*time.Second, "the certificate to be replaced", func(context.Context) error {
		after, err := os.ReadFile(file)
		if err == nil && string(after) == string(before) {
			err = errors.New("it is the one of before")
		}
		if err == nil {
			_, err = tls.X509KeyPair(after, after)
		}
		return err
	}))

	must(t, s.w.kubelet.ShiftClock(0))
	for _, name := range []string{"renewed", "later"} {
		s.w.remove(t, name, nil)
		s.w.untilGone(t, name)
	}
}

// signer answers requests for certificates.
type signer struct {
	w         *world
	t         *testing.T
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newSigner(t *testing.T, w *world) *signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	must(t, err)
	authority, err := x509.ParseCertificate(der)
	must(t, err)
	return &signer{w: w, t: t, authority: authority, key: key}
}

// run answers each request once.
func (s *signer) run(ctx context.Context) {
	for ctx.Err() == nil {
		requests := s.w.Client.CertificatesV1beta1().PodCertificateRequests(namespace)
		list, err := requests.List(ctx, metav1.ListOptions{})
		for i := 0; err == nil && i < len(list.Items); i++ {
			r := &list.Items[i]
			if len(r.Status.Conditions) > 0 {
				continue
			}
			if err = s.answer(r); err == nil {
				_, err = requests.UpdateStatus(ctx, r, metav1.UpdateOptions{})
			}
		}
		if err != nil && ctx.Err() == nil {
			s.t.Logf("signing: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *signer) answer(r *certificatesv1beta1.PodCertificateRequest) error {
	c := metav1.Condition{Status: metav1.ConditionTrue, Reason: "Because", Message: "it is a test",
		LastTransitionTime: metav1.Now()}
	switch r.Spec.SignerName {
	case denies:
		c.Type = certificatesv1beta1.PodCertificateRequestConditionTypeDenied
	case fails:
		c.Type = certificatesv1beta1.PodCertificateRequestConditionTypeFailed
	case signs:
		c.Type = certificatesv1beta1.PodCertificateRequestConditionTypeIssued
		if err := s.sign(r); err != nil {
			return err
		}
	}
	r.Status.Conditions = []metav1.Condition{c}
	return nil
}

func (s *signer) sign(r *certificatesv1beta1.PodCertificateRequest) error {
	proof, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err == nil {
		err = proof.CheckSignature()
	}
	if err != nil {
		return fmt.Errorf("the proof of %s: %w", r.Name, err)
	}
	begin := time.Now().Truncate(time.Second)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: r.Spec.PodName},
		NotBefore: begin, NotAfter: begin.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, s.authority, proof.PublicKey, s.key)
	if err != nil {
		return err
	}
	for _, one := range [][]byte{der, s.authority.Raw} {
		r.Status.CertificateChain += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one}))
	}
	r.Status.NotBefore, r.Status.NotAfter = &metav1.Time{Time: begin}, &metav1.Time{Time: leaf.NotAfter}
	r.Status.BeginRefreshAt = &metav1.Time{Time: begin.Add(10 * time.Minute)}
	return nil
}
