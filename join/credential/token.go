package credential

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Token is a bootstrap token of Kubernetes: its public name, and the secret.
type Token struct{ ID, secret string }

// tokenForm is that of k8s.io/cluster-bootstrap/token/api.BootstrapTokenPattern.
var tokenForm = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)

// ParseToken reads a token. The error does not repeat the text, which may be a secret.
func ParseToken(text string) (Token, error) {
	m := tokenForm.FindStringSubmatch(text)
	if m == nil {
		return Token{}, errors.New(
			"the token does not have the form of a bootstrap token, [a-z0-9]{6}.[a-z0-9]{16}; `kubeadm token create --print-join-command` prints one")
	}
	return Token{ID: m[1], secret: m[2]}, nil
}

// Valid reports whether there is a token.
func (t Token) Valid() bool { return t.ID != "" }

// String returns the token with its secret hidden.
func (t Token) String() string { return t.ID + ".<hidden>" }

// bearer is the token as the API server takes it.
func (t Token) bearer() string {
	if !t.Valid() {
		return ""
	}
	return t.ID + "." + t.secret
}

// Pins are SHA-256 hashes of the public keys of a cluster's certificate authorities. Others are not trusted.
type Pins []string

// ParsePins reads the values of --discovery-token-ca-cert-hash.
func ParsePins(values []string) (Pins, error) {
	var pins Pins
	for _, v := range values {
		kind, digits, found := strings.Cut(v, ":")
		if !found || !strings.EqualFold(kind, "sha256") {
			return nil, fmt.Errorf("the hash %q is not of the form sha256:<64 hexadecimal digits>", v)
		}
		if sum, err := hex.DecodeString(digits); err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("the hash %q is not of the form sha256:<64 hexadecimal digits>", v)
		}
		pins = append(pins, "sha256:"+strings.ToLower(digits))
	}
	return pins, nil
}

// Pin returns the hash of a certificate's public key, as kubeadm prints it.
func Pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// only returns what was found with those of its certificates that have a pinned key; it is an error if none has. The
// others are left out: whoever knows a token can sign a list with the cluster's certificate, which is public, and one
// of their own.
func (p Pins) only(found *info) (*info, error) {
	var have []string
	pinned := &info{server: found.server}
	for _, c := range found.list {
		if have = append(have, Pin(c)); slices.Contains(p, Pin(c)) {
			pinned.list = append(pinned.list, c)
			pinned.ca = append(pinned.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
	}
	if len(pinned.list) > 0 {
		return pinned, nil
	}
	return nil, &Problem{Check: "Discovery",
		Text: fmt.Sprintf(
			"the cluster's certificate authority is %s, not one of %s: wrong --discovery-token-ca-cert-hash, or not your API server",
			strings.Join(have, ", "), strings.Join(p, ", "))}
}

// Limit returns a cluster with those of its authorities alone that are pinned. Without pins it is the same cluster.
func (p Pins) Limit(c Cluster) (Cluster, error) {
	if len(p) == 0 {
		return c, nil
	}
	list, err := ParseCA(c.CA)
	if err != nil {
		return c, err
	}
	found, err := p.only(&info{list: list})
	if err != nil {
		return c, err
	}
	c.CA, c.CAHash = found.ca, Pin(found.list[0])
	return c, nil
}

// ParseCA reads the certificates of a PEM file.
func ParseCA(text []byte) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authority: %w", err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("reading the certificate authority: there is no certificate")
	}
	return list, nil
}
