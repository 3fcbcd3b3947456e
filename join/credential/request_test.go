package credential

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	certsv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
)

// signer is an API server that issues what is requested, as kubeadm's controllers do.
type signer struct {
	*httptest.Server
	key  *ecdsa.PrivateKey
	ca   *x509.Certificate
	life time.Duration // of certificates

	mu     sync.Mutex
	away   int // answers that are 503
	code   int // of all answers; 0: those of a server that works
	denied bool
	made   []string // requests that were made
	csr    *certsv1.CertificateSigningRequest
}

func newSigner(t *testing.T) *signer {
	s := &signer{life: 24 * time.Hour}
	var err error
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	s.ca = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour * 48),
		IsCA: true, BasicConstraintsValid: true}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *signer) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fail := func(code int) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "message": "answer %d"}`, code)
	}

	switch {
	case s.away != 0:
		s.away--
		fail(http.StatusServiceUnavailable)
	case s.code != 0:
		fail(s.code)
	case r.Method == http.MethodPost:
		s.csr = &certsv1.CertificateSigningRequest{}
		if json.NewDecoder(r.Body).Decode(s.csr) != nil {
			fail(http.StatusBadRequest)
			return
		}
		s.made = append(s.made, s.csr.Name)
		_ = json.NewEncoder(w).Encode(s.csr) // the client's read tells
	case s.csr == nil:
		fail(http.StatusNotFound)
	default:
		s.issue()
		_ = json.NewEncoder(w).Encode(s.csr) // the client's read tells
	}
}

func (s *signer) issue() {
	if s.denied {
		s.csr.Status.Conditions = []certsv1.CertificateSigningRequestCondition{{Type: certsv1.CertificateDenied,
			Status: v1.ConditionTrue, Message: "not today"}}
		return
	}
	block, _ := pem.Decode(s.csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: request.Subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(s.life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, s.ca, request.PublicKey, s.key)
	if err != nil {
		panic(err)
	}
	s.csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (s *signer) get(t *testing.T, ctx context.Context, key []byte) ([]byte, error) {
	t.Helper()
	signer, err := ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	api := anonymous(s.URL, nil)
	defer api.Close()
	return Request{API: api, Node: "win07", Key: signer, poll: time.Millisecond, quiet: time.Hour}.Get(ctx)
}

// TestRequestWhileAway: a control plane that is away for a while is asked again, by one request in all; one that stays
// away ends with the reason when the time is over.
func TestRequestWhileAway(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s := newSigner(t)
	s.away = 7
	for range 2 { // the second run finds the request of the first
		cert, err := s.get(t, t.Context(), key)
		if err != nil || !strings.Contains(string(cert), "BEGIN CERTIFICATE") {
			t.Fatalf("%s, %v", cert, err)
		}
	}
	if len(s.made) != 1 {
		t.Errorf("the requests %v were made, want one", s.made)
	}

	s.away = -1
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.get(t, ctx, key); err == nil || !strings.Contains(err.Error(), "waiting for the certificate: ") {
		t.Errorf("away for ever: %v", err)
	}
}

// TestRequestEnds has the answers after which asking again makes no sense.
func TestRequestEnds(t *testing.T) {
	for name, try := range map[string]struct {
		spoil func(*signer)
		text  string
	}{
		"the token has expired": {func(s *signer) { s.code = http.StatusUnauthorized },
			"the API server refuses the token: it has expired since"},
		"not allowed":         {func(s *signer) { s.code = http.StatusForbidden }, "answer 403"},
		"denied":              {func(s *signer) { s.denied = true }, "was denied: not today"},
		"expired certificate": {func(s *signer) { s.life = -time.Minute }, ErrUsedUp.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := NewKey()
			if err != nil {
				t.Fatal(err)
			}
			s := newSigner(t)
			try.spoil(s)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := s.get(t, ctx, key); err == nil || !strings.Contains(err.Error(), try.text) ||
				errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want %q", err, try.text)
			}
		})
	}
}

// TestUsable: what a certificate must have left depends on how long it lives.
func TestUsable(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: now.Add(-9000 * time.Hour), NotAfter: now.Add(9000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		node       string
		life, left time.Duration
		text       string // of the error
	}{
		"half of a year is over":  {"win07", 8760 * time.Hour, 4380 * time.Hour, ""},
		"a year ends soon":        {"win07", 8760 * time.Hour, 50 * time.Minute, "it ends at "},
		"an hour has begun":       {"win07", time.Hour, 55 * time.Minute, ""},
		"most of an hour is over": {"win07", time.Hour, 5 * time.Minute, "it ends at "},
		"90 seconds have begun":   {"win07", 90 * time.Second, 60 * time.Second, ""},
		"90 seconds are over":     {"win07", 90 * time.Second, -time.Second, "it ended at "},
		"it is of another node":   {"win08", time.Hour, 55 * time.Minute, "it is for system:node:win08"},
		"its year begins next week": {"win07", 8760 * time.Hour, 8930 * time.Hour,
			"it is not from this cluster's authority"},
	} {
		template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: NodeUser(c.node)},
			NotBefore: now.Add(c.left - c.life), NotAfter: now.Add(c.left),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		pair := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), own...)
		_, err = Usable(pair, "win07", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}))
		if c.text == "" && err != nil || c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
	}
}
