package manifests

import (
	"crypto/x509"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestToken(t *testing.T) {
	token, err := newToken(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	// bootstraputil.BootstrapTokenPattern
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token.String()) {
		t.Errorf("the token %s", token)
	}
	manifest, err := token.manifest()
	if err != nil || !strings.Contains(manifest, `"expiration":"1970-01-01T00:00:00Z"`) ||
		!strings.Contains(manifest, "bootstrap-token-"+token.ID) {
		t.Errorf("%s, %v", manifest, err)
	}
	line := joinCommand(token, &x509.Certificate{RawSubjectPublicKeyInfo: []byte("key")})
	want := "porthole join 10.99.0.11:6443 --token " + token.String() +
		" --discovery-token-ca-cert-hash sha256:2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"
	if line != want {
		t.Error(line)
	}
}
