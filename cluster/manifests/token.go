package manifests

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/credentials"
	"porthole.dev/porthole/cluster/layout"
)

// nodeTokens is the group of bootstrap tokens that may make a machine a node, as kubeadm calls it.
const nodeTokens = "system:bootstrappers:kubeadm:default-node-token"

// Token is a bootstrap token.
type Token struct {
	ID, Secret string
	Expires    time.Time
}

// String returns the token as commands take it.
func (t Token) String() string { return t.ID + "." + t.Secret }

// newToken makes a token that is valid until a time. Its form is that of kubeadm's tokens.
func newToken(expires time.Time) (Token, error) {
	text, err := randomText(6 + 16)
	return Token{ID: text[:6], Secret: text[6:], Expires: expires}, err
}

// randomText returns n characters of a-z and 0-9 that nobody can guess.
func randomText(n int) (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	out := make([]byte, n)
	for i := range out {
		at, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", fmt.Errorf("making a token: %w", err)
		}
		out[i] = letters[at.Int64()]
	}
	return string(out), nil
}

// manifest is the Secret by which the API server knows the token. The token cleaner deletes it when it has expired.
func (t Token) manifest() (string, error) {
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
		"metadata": object{"namespace": "kube-system", "name": "bootstrap-token-" + t.ID},
		"stringData": object{"token-id": t.ID, "token-secret": t.Secret,
			"expiration":                     t.Expires.UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": nodeTokens}})
	return string(text), err
}

// joinCommand returns the command line that makes a machine a node of the cluster.
func joinCommand(t Token, ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return fmt.Sprintf("porthole join %s --token %s --discovery-token-ca-cert-hash sha256:%s", config.APIServer(), t,
		hex.EncodeToString(sum[:]))
}

// CreateToken makes a bootstrap token of the cluster in a folder, and returns the command line that joins a machine
// with it.
func CreateToken(ctx context.Context, l layout.Layout, life time.Duration) (t Token, command string, err error) {
	ca, err := credentials.Authority(l)
	if errors.Is(err, os.ErrNotExist) {
		return t, "", fmt.Errorf("there is no cluster in %s: `porthole up` makes it", l.Dir)
	}
	if err != nil {
		return t, "", err
	}
	if t, err = newToken(time.Now().Add(life)); err != nil {
		return t, "", err
	}
	manifest, err := t.manifest()
	if err != nil {
		return t, "", err
	}
	if err := Apply(ctx, l, manifest); err != nil {
		return t, "", fmt.Errorf("making a token: %w", err)
	}
	return t, joinCommand(t, ca), nil
}
