package credential

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	certsv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewKey returns a new P-256 key as PEM.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// ParseKey reads what NewKey made.
func ParseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("reading a key: there is no PEM block")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	return key, nil
}

const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// Request gets a certificate for a node's kubelet.
type Request struct {
	API  *API
	Node string
	Key  crypto.Signer
	// Waiting is called once when nobody has approved the request for a while, with its name; nil for nobody.
	Waiting func(name string)

	poll, quiet time.Duration // only tests set them
}

const (
	approvalPoll  = 50 * time.Millisecond // kubeadm's controller approves within that time
	approvalSlow  = 500 * time.Millisecond
	approvalQuiet = 15 * time.Second
)

// ErrUsedUp is the error of a request whose key has a certificate already that does not serve any more: a new key is
// needed.
var ErrUsedUp = errors.New("the certificate of this key cannot be used any more")

// Name returns the name of the request: one for each key, so that a request that was sent before is found again.
func Name(key crypto.Signer) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("naming a certificate request: %w", err)
	}
	sum := sha256.Sum256(der)
	return "node-csr-" + hex.EncodeToString(sum[:]), nil
}

// Get sends the request, unless it was sent before, and waits for the certificate until ctx ends. It returns the
// certificate as PEM. While the API server does not answer it asks again.
func (r Request) Get(ctx context.Context) ([]byte, error) {
	name, err := Name(r.Key)
	if err != nil {
		return nil, err
	}
	// Tests set shorter times.
	poll, quiet := r.poll, r.quiet
	if poll == 0 {
		poll, quiet = approvalPoll, approvalQuiet
	}
	var last error
	for start, told := time.Now(), false; ; {
		done, err := r.try(ctx, name)
		if len(done) > 0 {
			return done, nil
		}
		// Only what may pass is tried again: no answer, or an error within the server.
		if err != nil && !errors.Is(err, ErrUnreachable) && Code(err) < http.StatusInternalServerError {
			return nil, err
		}
		last = err
		if err == nil && !told && time.Since(start) >= quiet && r.Waiting != nil {
			told = true
			r.Waiting(name)
		}

		select {
		case <-ctx.Done():
			if last == nil {
				last = fmt.Errorf("nobody approved it: kubectl certificate approve %s", name)
			}
			return nil, fmt.Errorf("waiting for the certificate: %w", last)
		case <-time.After(poll):
		}
		if time.Since(start) > time.Second {
			poll = max(poll, approvalSlow)
		}
	}
}

// try returns the certificate if it has been issued, and makes the request if there is none.
func (r Request) try(ctx context.Context, name string) ([]byte, error) {
	var csr certsv1.CertificateSigningRequest
	err := r.API.Do(ctx, http.MethodGet, requests+"/"+name, nil, &csr)
	if Code(err) == http.StatusNotFound {
		if csr, err = r.make(name); err == nil {
			err = r.API.Do(ctx, http.MethodPost, requests, csr, &csr)
		}
		if Code(err) == http.StatusConflict { // by an earlier run, a moment ago
			return nil, nil
		}
	}
	if Code(err) == http.StatusUnauthorized {
		return nil, &Problem{Check: "Discovery", Text: "the API server refuses the token: it has expired since",
			Cure: "kubeadm token create --print-join-command"}
	}
	if err != nil {
		return nil, fmt.Errorf("certificate request %s: %w", name, err)
	}
	return issued(&csr, r.Node)
}

// issued returns the certificate of a request, nil if it has none yet, or why there will be none.
func issued(csr *certsv1.CertificateSigningRequest, node string) ([]byte, error) {
	for _, c := range csr.Status.Conditions {
		switch c.Type {
		case certsv1.CertificateDenied:
			return nil, fmt.Errorf("certificate request %s was denied: %s", csr.Name, c.Message)
		case certsv1.CertificateFailed:
			return nil, fmt.Errorf("certificate request %s failed: %s", csr.Name, c.Message)
		}
	}
	if len(csr.Status.Certificate) == 0 {
		return nil, nil
	}
	block, _ := pem.Decode(csr.Status.Certificate)
	if block == nil {
		return nil, fmt.Errorf("certificate request %s: the certificate is no PEM", csr.Name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate request %s: %w", csr.Name, err)
	}
	if time.Now().After(cert.NotAfter) || cert.Subject.CommonName != NodeUser(node) {
		return nil, ErrUsedUp
	}
	return csr.Status.Certificate, nil
}

// NodeUser is how a node is called in the cluster.
func NodeUser(node string) string { return "system:node:" + node }

// nodesGroup is the group that the node authoriser asks for.
const nodesGroup = "system:nodes"

func (r Request) make(name string) (csr certsv1.CertificateSigningRequest, err error) {
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: NodeUser(r.Node), Organization: []string{nodesGroup}}},
		r.Key)
	if err != nil {
		return csr, fmt.Errorf("making a certificate request: %w", err)
	}
	csr.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
	csr.Name = name
	csr.Spec = certsv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certsv1.KubeAPIServerClientKubeletSignerName,
		Usages:     []certsv1.KeyUsage{certsv1.UsageDigitalSignature, certsv1.UsageClientAuth},
	}
	return csr, nil
}

// leastLife is what a certificate must have left: a node that starts with it must find the time to have it renewed,
// which its kubelet does when a fifth is left, about. Of one that lives shorter than ten times as long, as clusters
// with a short --cluster-signing-duration issue them, a tenth must be left.
const leastLife = time.Hour

// Usable returns nil if a file with a certificate and its key serves a node of a cluster for a while; see leastLife.
func Usable(pair []byte, node string, ca []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(pair)
	for rest := pair; block != nil && block.Type != "CERTIFICATE"; {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, errors.New("it holds no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	if !bytes.Contains(pair, []byte("PRIVATE KEY-----")) {
		return cert, errors.New("it holds no key")
	}

	if cert.Subject.CommonName != NodeUser(node) {
		return cert, fmt.Errorf("it is for %s", cert.Subject.CommonName)
	}
	left := time.Until(cert.NotAfter)
	if left <= 0 {
		return cert, fmt.Errorf("it ended at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if left < min(leastLife, cert.NotAfter.Sub(cert.NotBefore)/10) {
		return cert, fmt.Errorf("it ends at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return cert, fmt.Errorf("it is not from this cluster's authority: %w", err)
	}
	return cert, nil
}

// NodeOf returns a Node, nil if there is none.
func (a *API) NodeOf(ctx context.Context, name string) (*v1.Node, error) {
	var n v1.Node
	err := a.Do(ctx, http.MethodGet, "/api/v1/nodes/"+name, nil, &n)
	if Code(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return &n, nil
}
