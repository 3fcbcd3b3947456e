package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"porthole.dev/porthole/internal/atomicfile"
)

// selfSignedLife is upstream's.
// A certificate of our own is made anew a day before it ends (valid).
const selfSignedLife = 365 * 24 * time.Hour

// certificates gives a key pair from files, and reads it again when the certificate file has changed. It is safe for
// concurrent use.
type certificates struct {
	certFile, keyFile string
	renew             func() error // replaces the files before they expire; nil if they belong to somebody else

	mu     sync.Mutex
	loaded *tls.Certificate
	at     time.Time // modification time of the certificate file
}

// certificateSource returns a function that returns the serving certificate of node at any time. It fails if there is
// no certificate now.
func certificateSource(o TLSOptions, node string) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if o.Certificate != nil {
		return o.Certificate, nil
	}
	// Without files the certificate is our own, in CertDir.
	c := &certificates{certFile: o.CertFile, keyFile: o.KeyFile}
	if c.certFile == "" || c.keyFile == "" {
		if o.CertDir == "" {
			return nil, fmt.Errorf("serving: neither a certificate nor a folder for one is given")
		}
		c.certFile = filepath.Join(o.CertDir, "kubelet.crt")
		c.keyFile = filepath.Join(o.CertDir, "kubelet.key")
		c.renew = func() error { return selfSign(c.certFile, c.keyFile, node, o.NodeAddresses) }
	}
	// A certificate that cannot be had is an error at the start, not at the first connection.
	if _, err := c.get(nil); err != nil {
		return nil, err
	}
	return c.get, nil
}

// get returns the certificate as its file has it now. It keeps the last one if the files cannot be read or do not fit
// each other, because whoever replaces them writes one after the other. It has the signature of
// tls.Config.GetCertificate.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.certFile)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.at) && (c.renew == nil || valid(c.loaded)) {
		return c.loaded, nil
	}

	pair, at, err := c.load()
	// An own certificate is renewed if it is not valid, and if it cannot be read.
	if c.renew != nil && (err != nil || !valid(&pair)) {
		if err := c.renew(); err != nil {
			return nil, err
		}
		pair, at, err = c.load()
	}
	if err != nil {
		if c.loaded != nil {
			return c.loaded, nil
		}
		return nil, fmt.Errorf("loading serving certificate: %w", err)
	}

	c.loaded, c.at = &pair, at
	return c.loaded, nil
}

// load reads the key pair, and the modification time of the certificate file. The time is read first: a file that is
// replaced while load reads it then has another time than the one returned, and the next call of get reads it again.
func (c *certificates) load() (pair tls.Certificate, at time.Time, err error) {
	if info, err := os.Stat(c.certFile); err == nil {
		at = info.ModTime()
	}
	pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile)
	return pair, at, err
}

// valid reports whether a certificate is valid now and for another day.
// A pair without a parsed leaf counts as not valid.
func valid(pair *tls.Certificate) bool {
	now := time.Now()
	return pair.Leaf != nil && now.After(pair.Leaf.NotBefore) && now.Add(24*time.Hour).Before(pair.Leaf.NotAfter)
}

// selfSign writes a key and a certificate for name and addresses, which may be IP addresses or DNS names.
func selfSign(certFile, keyFile, name string, addresses []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making serving key: %w", err)
	}
	// 120 bits are random enough to be unique and within the 20 bytes that RFC 5280 (4.1.2.2)
	// allows.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("making serving certificate: %w", err)
	}

	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		// Clocks of clients may be behind.
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(selfSignedLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{name},
	}
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if a != name {
			template.DNSNames = append(template.DNSNames, a)
		}
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("signing serving certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding serving key: %w", err)
	}

	if err := os.MkdirAll(filepath.Dir(certFile), 0o750); err != nil {
		return fmt.Errorf("making folder of serving certificate: %w", err)
	}
	// The key is written first: get keeps the old pair while the two do not fit.
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if err := atomicfile.WriteThrough(keyFile, keyText, 0o600); err != nil {
		return fmt.Errorf("writing serving key: %w", err)
	}
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := atomicfile.WriteThrough(certFile, certText, 0o644); err != nil {
		return fmt.Errorf("writing serving certificate: %w", err)
	}
	return nil
}
