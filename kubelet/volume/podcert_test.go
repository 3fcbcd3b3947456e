package volume

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/volume/podcert"
	"porthole.dev/porthole/kubelet/volume/sources"
)

// signer is a podcert.API whose requests tests answer.
type signer struct {
	mu   sync.Mutex
	list []*certificatesv1beta1.PodCertificateRequest
	err  error
	told func()
}

func (s *signer) ServiceAccount(context.Context, string, string) (*v1.ServiceAccount, error) {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", UID: "uid-robot"}}, nil
}

func (s *signer) GetNode(context.Context) (*v1.Node, error) {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n"}}, nil
}

func (s *signer) CreateCertificateRequest(_ context.Context,
	r *certificatesv1beta1.PodCertificateRequest) (*certificatesv1beta1.PodCertificateRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	r = r.DeepCopy()
	r.Name = fmt.Sprintf("%s%d", r.GenerateName, len(s.list))
	s.list = append(s.list, r)
	return r, nil
}

func (s *signer) CertificateRequest(_ context.Context, _, name string) (*certificatesv1beta1.PodCertificateRequest,
	bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list {
		if r.Name == name && len(r.Status.Conditions) > 0 { // the watch is late
			return r.DeepCopy(), true
		}
	}
	return nil, true
}

// answer waits for the request with that number and answers it. The certificate is text, so that the test sees which
// one it is.
func (s *signer) answer(t *testing.T, n int, condition string, refresh time.Time) {
	t.Helper()
	wait.True(t, 10*time.Second, fmt.Sprintf("request %d", n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.list) > n
	})
	s.mu.Lock()
	r := s.list[n].DeepCopy()
	r.Status = certificatesv1beta1.PodCertificateRequestStatus{
		Conditions:       []metav1.Condition{{Type: condition, Reason: "Why", Message: "so"}},
		CertificateChain: "a comment\n" + certificates(fmt.Sprint("leaf ", n), "between"),
		BeginRefreshAt:   &metav1.Time{Time: refresh}, NotAfter: &metav1.Time{Time: refresh.Add(time.Hour)}}
	s.list[n] = r
	s.mu.Unlock()
	s.told()
}

// TestCertificateVolume: a volume shows a key and the certificate for it, and another pair in time; until then, and
// when the signer is away, those of before stay. A refused one is said once, and its files stay too.
func TestCertificateVolume(t *testing.T) {
	o := newObjects()
	s := &signer{told: func() { o.told(sources.PodCertificate) }}
	seconds := int32(3600)
	pod := podWith(vol("v", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{PodCertificate: &v1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519",
			MaxExpirationSeconds: &seconds,
			CredentialBundlePath: "both.pem", KeyPath: "key.pem", CertificateChainPath: "sub/chain.pem",
			UserAnnotations: map[string]string{"example.com/a": "b"}}}}}}))
	pod.Spec.ServiceAccountName = "robot"

	off := newTestManager(t, o)
	if err := off.Prepare(t.Context(), pod, Facts{}); !errors.Is(err, sources.ErrCertificatesOff) {
		t.Errorf("without the gate: %v", err)
	}

	var clock sync.Mutex
	now := time.Now()
	set := func(to time.Time) { clock.Lock(); defer clock.Unlock(); now = to }
	events := make(chan string, 10)
	m := newTestManager(t, o)
	m.opts.Certificates = s
	m.opts.Now = func() time.Time { clock.Lock(); defer clock.Unlock(); return now }
	m.opts.Event = func(_ *v1.Pod, kind, reason, message string) { events <- kind + " " + reason + ": " + message }

	refresh := now.Add(time.Hour)
	go s.answer(t, 0, certificatesv1beta1.PodCertificateRequestConditionTypeIssued, refresh)
	if err := m.Prepare(t.Context(), pod, Facts{}); err != nil {
		t.Fatal(err)
	}
	key, chain := read(t, m, "v", "key.pem"), read(t, m, "v", "sub/chain.pem")
	if chain != withoutHeaders("leaf 0", "between") || !strings.HasPrefix(key, "-----BEGIN PRIVATE KEY") ||
		read(t, m, "v", "both.pem") != key+chain {
		t.Fatalf("key %s chain %s", key, chain)
	}
	asked := s.list[0].Spec
	if asked.SignerName != "example.com/s" || asked.PodUID != pod.UID || asked.ServiceAccountUID != "uid-robot" ||
		asked.NodeUID != "uid-n" || *asked.MaxExpirationSeconds != 3600 ||
		asked.UnverifiedUserAnnotations["example.com/a"] != "b" || s.list[0].OwnerReferences[0].UID != pod.UID {
		t.Errorf("asked for %+v", asked)
	}
	if err := m.Prepare(t.Context(), pod, Facts{}); err != nil || len(s.list) != 1 {
		t.Errorf("a second preparation: %v, %d requests", err, len(s.list))
	}

	// The certificate has to be renewed while the API server does not answer: the renewal is overdue. Then it answers,
	// and a new one is issued.
	s.mu.Lock()
	s.err = errors.New("away")
	s.mu.Unlock()
	set(refresh.Add(podcert.Jitter + podcert.Overdue + time.Minute))
	s.told()
	if got := <-events; got != "Warning CertificateOverdueForRefresh: PodCertificate refresh overdue" {
		t.Errorf("event %s", got)
	}
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	set(refresh.Add(podcert.Jitter + podcert.Overdue + time.Minute + podcert.Again))
	s.told()
	later := refresh.Add(24 * time.Hour)
	s.answer(t, 1, certificatesv1beta1.PodCertificateRequestConditionTypeIssued, later)
	wait.True(t, 10*time.Second, "the files to follow",
		func() bool { return read(t, m, "v", "sub/chain.pem") == withoutHeaders("leaf 1", "between") })
	second := read(t, m, "v", "both.pem")
	if read(t, m, "v", "key.pem") == key || second == key+chain {
		t.Error("the key is the one of before")
	}

	set(later.Add(podcert.Jitter))
	s.told()
	s.answer(t, 2, certificatesv1beta1.PodCertificateRequestConditionTypeDenied, later)
	if got, want := <-events,
		`Warning Denied: PodCertificateRequest ns/req-2 was denied, reason="Why", message="so"`; got != want {
		t.Errorf("event %s, want %s", got, want)
	}
	err := m.Prepare(t.Context(), pod, Facts{})
	if want := `PodCertificateRequest was permanently denied: reason="Why" message="so"`; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if read(t, m, "v", filepath.FromSlash("both.pem")) != second || len(s.list) != 3 || len(events) > 0 {
		t.Errorf("after the refusal: %d requests, %d more events", len(s.list), len(events))
	}
}

func withoutHeaders(of ...string) string {
	out, rest := "", []byte(certificates(of...))
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		out += string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
}
