package serve

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/kubelet/pod"
)

// handshake returns the version of TLS that a client gets which supports none above newest.
func handshake(t *testing.T, server *tls.Config, newest uint16, ciphers ...uint16) (uint16, error) {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		_ = tls.Server(far, server).Handshake() // the client's side reports the error
	}()
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, MaxVersion: newest, CipherSuites: ciphers})
	if err := client.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	err := client.Handshake()
	return client.ConnectionState().Version, err
}

func TestTLSVersions(t *testing.T) {
	const good, other = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384

	for _, c := range []struct {
		name    string
		server  TLSOptions
		client  uint16
		ciphers []uint16
		works   bool
	}{
		{"the default speaks 1.2", TLSOptions{}, tls.VersionTLS12, nil, true},
		{"and nothing older", TLSOptions{}, tls.VersionTLS11, nil, false},
		{"1.3 was asked for", TLSOptions{MinVersion: tls.VersionTLS13}, tls.VersionTLS12, nil, false},
		{"1.3", TLSOptions{MinVersion: tls.VersionTLS13}, tls.VersionTLS13, nil, true},
		{"a cipher suite that is allowed", TLSOptions{CipherSuites: []uint16{good}}, tls.VersionTLS12, []uint16{good},
			true},
		{"a cipher suite that is not", TLSOptions{CipherSuites: []uint16{good}}, tls.VersionTLS12, []uint16{other},
			false},
	} {

		o := Options{NodeName: "n", TLS: c.server, Pods: func() []pod.View { return nil }}
		o.TLS.CertDir = tempDir(t)
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := handshake(t, s.tlsConfig(), c.client, c.ciphers...); (err == nil) != c.works ||
			c.works && got != c.client {
			t.Errorf("%s: version %x, error %v", c.name, got, err)
		}
	}
}

// TestCertificateFilesAreReadAgain: a pair of files that somebody replaces is served without a restart; while one of
// them does not fit the other, the old pair is.
func TestCertificateFilesAreReadAgain(t *testing.T) {
	dir := tempDir(t)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	sign := func(name string) {
		t.Helper()
		if err := selfSign(cert, key, name, nil); err != nil {
			t.Fatal(err)
		}
	}

	at := time.Now().Add(-time.Hour)
	stamp := func() { // file times may be coarse; a replaced file is always newer
		t.Helper()
		at = at.Add(time.Minute)
		if err := os.Chtimes(cert, at, at); err != nil {
			t.Fatal(err)
		}
	}

	sign("first")
	stamp()
	get, err := certificateSource(TLSOptions{CertFile: cert, KeyFile: key}, "n")
	if err != nil {
		t.Fatal(err)
	}
	serves := func(what, want string) {
		t.Helper()
		pair, err := get(nil)
		if err != nil || pair.Leaf.Subject.CommonName != want {
			t.Errorf("%s: %v, error %v, want %s", what, pair.Leaf.Subject, err, want)
		}
	}
	serves("at the start", "first")

	oldKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	sign("second")
	newKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, oldKey, 0o600); err != nil {
		t.Fatal(err)
	}

	stamp()
	serves("half replaced", "first")
	if err := os.WriteFile(key, newKey, 0o600); err != nil {
		t.Fatal(err)
	}
	serves("replaced", "second")

	if _, err := certificateSource(TLSOptions{CertFile: filepath.Join(dir, "none"), KeyFile: key}, "n"); err == nil {
		t.Error("a certificate that does not exist was accepted")
	}
}
