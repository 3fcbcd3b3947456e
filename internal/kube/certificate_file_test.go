package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/certificate"
)

// selfSigned returns a certificate for a name, and its key.
func selfSigned(t *testing.T, name string) (cert, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// TestPairFile: where the current certificate comes from, and what replaces it.
func TestPairFile(t *testing.T) {
	dir := t.TempDir()
	s := &pairFile{name: "kubelet-client", dir: filepath.Join(dir, "pki"),
		first: [2]string{filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")}}
	var none *certificate.NoCertKeyError
	if _, err := s.Current(); !errors.As(err, &none) {
		t.Fatalf("none yet: %v", err)
	}

	cert, key := selfSigned(t, "first")
	must(t, os.WriteFile(s.first[0], cert, 0o600))
	must(t, os.WriteFile(s.first[1], key, 0o600))
	check := func(want string) {
		t.Helper()
		pair, err := s.Current()
		must(t, err)
		if got := pair.Leaf.Subject.CommonName; got != want {
			t.Errorf("the certificate is for %q, want %q", got, want)
		}
	}
	check("first")
	for _, name := range []string{"second", "third"} {
		cert, key := selfSigned(t, name)
		_, err := s.Update(cert, key)
		must(t, err)
		check(name)
	}

	// What is not valid changes nothing.
	_, other := selfSigned(t, "other")
	for what, pair := range map[string][2][]byte{"another's key": {cert, other}, "no key": {cert, nil},
		"no certificate": {nil, key}} {
		if _, err := s.Update(pair[0], pair[1]); err == nil {
			t.Errorf("%s is stored", what)
		}
	}
	check("third")

	must(t, os.WriteFile(s.CurrentPath(), []byte("half"), 0o600))
	if _, err := s.Current(); err == nil || errors.As(err, &none) || !strings.Contains(err.Error(), s.CurrentPath()) {
		t.Errorf("a file that is no certificate: %v", err)
	}
}

// TestPairFileReplacesALink: upstream's kubelet leaves a link to its newest certificate.
func TestPairFileReplacesALink(t *testing.T) {
	s := &pairFile{name: "kubelet-client", dir: t.TempDir()}
	cert, key := selfSigned(t, "upstream")
	old := filepath.Join(s.dir, "kubelet-client-2026.pem")
	must(t, os.WriteFile(old, append(cert, key...), 0o600))
	if err := os.Symlink(old, s.CurrentPath()); err != nil {
		t.Skip("links are not possible here: ", err)
	}

	if pair, err := s.Current(); err != nil || pair.Leaf.Subject.CommonName != "upstream" {
		t.Fatalf("through the link: %v", err)
	}
	cert, key = selfSigned(t, "ours")
	_, err := s.Update(cert, key)
	must(t, err)
	if st, err := os.Lstat(s.CurrentPath()); err != nil || !st.Mode().IsRegular() {
		t.Errorf("%v, %v", st, err)
	}
	if text, err := os.ReadFile(old); err != nil || len(text) == 0 {
		t.Errorf("the target of the link changed: %v", err)
	}
}
