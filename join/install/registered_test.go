package install

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"porthole.dev/porthole/join/credential"
	"porthole.dev/porthole/join/step"
)

// nodeOf returns a node with a certificate, and an API server that has one Node object.
func nodeOf(t *testing.T, object string) *Node {
	t.Helper()
	server := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, object) }))
	t.Cleanup(server.Close)
	n := &Node{Name: "win07", UUID: "AAAA-1", Kubelet: t.TempDir(),
		Cluster: &credential.Cluster{Server: server.URL, CA: pemOf(server.Certificate().Raw)}}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:win07"},
		NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pair := append(pemOf(cert), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(n.Pair()), 0o755), os.WriteFile(n.Pair(), pair, 0o600)); err != nil {
		t.Fatal(err)
	}
	return n
}

func pemOf(cert []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
}

// TestSameName: of two machines with one name, the one whose kubelet did not register the Node ends at once and says
// who has the name.
func TestSameName(t *testing.T) {
	const object = `{"metadata": {"name": "win07"}, "status": {"nodeInfo": {"systemUUID": "%s"}}}`
	err := Registered{nodeOf(t, fmt.Sprintf(object, "bbbb-2"))}.Apply(t.Context())
	if err == nil || !strings.Contains(err.Error(), "node name win07 is used by another machine (systemUUID bbbb-2)") {
		t.Errorf("the other's Node: %v", err)
	}
	if err := (Registered{nodeOf(t, fmt.Sprintf(object, "aaaa-1"))}).Apply(t.Context()); err != nil {
		t.Errorf("our own Node: %v", err)
	}
}

// TestWaitsForAPI: while the API server does not answer the last steps wait for it, and end with the time that they
// have.
func TestWaitsForAPI(t *testing.T) {
	away := &atomic.Bool{}
	n := nodeOf(t,
		`{"metadata": {"name": "win07"}, "status": {"nodeInfo": {"systemUUID": "aaaa-1"}, "conditions": [{"type": "Ready", "status": "True"}]}}`)
	real, _ := url.Parse(n.Cluster.Server)
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		answer := httputil.NewSingleHostReverseProxy(real)
		answer.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		answer.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	n.Cluster.Server, n.Cluster.CA = proxy.URL, pemOf(proxy.Certificate().Raw)

	for _, s := range []step.Step{Registered{n}, Ready{n}} {
		away.Store(true)
		j := step.NewJournal("win07", "")
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := runner(&j).Run(short, []step.Step{s}); !errors.Is(err, ErrTime) {
			t.Errorf("%s: away for ever: %v", s.ID(), err)
		}
		cancel()
		time.AfterFunc(300*time.Millisecond, func() { away.Store(false) })
		if _, err := runner(&j).Run(t.Context(), []step.Step{s}); err != nil {
			t.Errorf("%s: away for a moment: %v", s.ID(), err)
		}
	}
}

// TestWaitsForReadyInVain: whose node does not get Ready in time is told why not, also if the time ends during a
// request.
func TestWaitsForReadyInVain(t *testing.T) {
	var requests atomic.Int32
	n := nodeOf(t, "")
	slow := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w,
			`{"metadata": {"name": "win07"}, "status": {"conditions": [{"type": "Ready", "status": "False", "message": "no network of this boot"}]}}`)
	}))
	t.Cleanup(slow.Close)
	n.Cluster.Server, n.Cluster.CA = slow.URL, pemOf(slow.Certificate().Raw)

	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := (Ready{n}).Apply(short); !errors.Is(err, ErrTime) ||
		!strings.Contains(err.Error(), "node win07 is not Ready: no network of this boot") || requests.Load() < 2 {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}
