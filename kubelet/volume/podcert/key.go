package podcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// keyMakers generate a private key of each keyType that the API allows in a podCertificate.
var keyMakers = map[string]func() (crypto.PrivateKey, error){
	"RSA3072":   func() (crypto.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 3072) },
	"RSA4096":   func() (crypto.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 4096) },
	"ECDSAP256": func() (crypto.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
	"ECDSAP384": func() (crypto.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
	"ECDSAP521": func() (crypto.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
	"ED25519": func() (crypto.PrivateKey, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	},
}

// newKey makes a private key: as PEM (PKCS #8), and the proof that its maker has it, which is a certificate request
// (PKCS #10) that says nothing else.
func newKey(keyType string) (key, proof []byte, err error) {
	mk := keyMakers[keyType]
	if mk == nil {
		return nil, nil, fmt.Errorf("unknown key type %q", keyType)
	}
	private, err := mk()
	if err != nil {
		return nil, nil, fmt.Errorf("making a key of type %s: %w", keyType, err)
	}
	if proof, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private); err != nil {
		return nil, nil, fmt.Errorf("proving the possession of a key of type %s: %w", keyType, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key of type %s: %w", keyType, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), proof, nil
}

// onlyCertificates returns the certificates of a chain without what stands between them and in their headers.
func onlyCertificates(chain string) (out []byte) {
	rest := []byte(chain)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
}
