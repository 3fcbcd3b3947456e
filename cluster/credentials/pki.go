package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"porthole.dev/porthole/internal/atomicfile"
)

// Credentials of a local cluster live for a year; `porthole up` on a new folder makes new ones.
const certLife = 365 * 24 * time.Hour

// authority signs certificates. Its files are NAME.crt and NAME.key of the PKI folder.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
}

// loadAuthority reads an authority of the folder, or makes it.
func loadAuthority(dir, name string) (*authority, error) {
	a := &authority{dir: dir, name: name}
	cert, key, err := readPair(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		template := &x509.Certificate{
			Subject: pkix.Name{CommonName: "porthole-" + name}, IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
		cert, key, err = makePair(dir, name, template, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s in %s: %w", name, dir, err)
	}
	a.cert, a.key = cert, key
	return a, nil
}

// identity describes the holder of a certificate.
type identity struct {
	file  string // NAME.crt and NAME.key
	user  string
	group string
	// hosts makes it a serving certificate for these names and addresses.
	hosts []string
}

// issue makes the certificate unless it exists.
func (a *authority) issue(id identity) error {
	if _, _, err := readPair(a.dir, id.file); err == nil {
		return nil
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: id.user},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}

	if id.group != "" {
		template.Subject.Organization = []string{id.group}
	}
	for _, h := range id.hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}

	if _, _, err := makePair(a.dir, id.file, template, a); err != nil {
		return fmt.Errorf("certificate %s: %w", id.file, err)
	}
	return nil
}

// makePair makes the key and a certificate from template, signed by by; nil signs it with its own key. It writes
// dir/name.crt and dir/name.key. It sets the serial number and the validity of template.
func makePair(dir, name string, template *x509.Certificate, by *authority) (*x509.Certificate, crypto.Signer, error) {
	key, err := makeKey(dir, name)
	if err != nil {
		return nil, nil, err
	}

	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}

	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(certLife)
	parent, signer := template, crypto.Signer(key)
	if by != nil {
		parent, signer = by.cert, by.key
	}

	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	if err := writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der, 0o644); err != nil {
		return nil, nil, err
	}

	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// makeKey makes NAME.key, an EC P-256 key.
func makeKey(dir, name string) (*ecdsa.PrivateKey, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(filepath.Join(dir, name+".key"), "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return atomicfile.WriteThrough(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

// readPair reads what makePair wrote.
func readPair(dir, name string) (*x509.Certificate, crypto.Signer, error) {
	crt, err := readPEM(filepath.Join(dir, name+".crt"))
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(crt)
	if err != nil {
		return nil, nil, err
	}
	der, err := readPEM(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	return cert, key, err
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return block.Bytes, nil
}
