package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certsv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// authority is an API server that signs every certificate request and records who requested it.
type authority struct {
	*httptest.Server
	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu sync.Mutex
	// of the first certificate; later ones last an hour, so that none is written while the test ends
	lifetime time.Duration
	requests map[string]*certsv1.CertificateSigningRequest
	asked    []string // user and signer of each request
	seen     []string // serial numbers of client certificates that were presented
}

func newAuthority(t *testing.T, lifetime time.Duration) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	a := &authority{key: key, cert: cert, lifetime: lifetime, requests: map[string]*certsv1.CertificateSigningRequest{}}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	a.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (a *authority) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	user := "nobody"
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		user = "bootstrap"
	}
	if len(r.TLS.PeerCertificates) > 0 {
		leaf := r.TLS.PeerCertificates[0]
		user = leaf.Subject.CommonName
		if serial := leaf.SerialNumber.String(); !slices.Contains(a.seen, serial) {
			a.seen = append(a.seen, serial)
		}
	}

	const base = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	switch name, isRequest := strings.CutPrefix(r.URL.Path, base); {
	case isRequest && r.Method == http.MethodPost:
		data, _ := io.ReadAll(r.Body)
		obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), data)
		csr, ok := obj.(*certsv1.CertificateSigningRequest)
		if err != nil || !ok {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		csr.Name, csr.UID, csr.ResourceVersion = fmt.Sprintf("csr-%d", len(a.requests)), "uid", "1"
		a.asked = append(a.asked, user+" for "+csr.Spec.SignerName)
		a.sign(csr)
		a.requests[csr.Name] = csr
		a.answer(w, csr)

	case isRequest && name == "" && r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json") // nothing ever changes
	case isRequest && name == "":
		list := &certsv1.CertificateSigningRequestList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for _, c := range a.requests {
			if strings.Contains(r.URL.Query().Get("fieldSelector"), c.Name) {
				list.Items = append(list.Items, *c)
			}
		}
		a.answer(w, list)

	case r.URL.Path == "/api/v1/nodes/n1":
		if user != "system:node:n1" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		a.answer(w, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	default:
		http.NotFound(w, r)
	}
}

func (a *authority) answer(w http.ResponseWriter, obj runtime.Object) {
	kinds, _, _ := scheme.Scheme.ObjectKinds(obj)
	obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj)
}

// sign does what the approver and the signer of a cluster do.
func (a *authority) sign(csr *certsv1.CertificateSigningRequest) {
	block, _ := pem.Decode(csr.Spec.Request)
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return
	}
	lifetime := a.lifetime
	if len(a.requests) > 0 {
		lifetime = time.Hour
	}
	usage := x509.ExtKeyUsageClientAuth
	if slices.Contains(csr.Spec.Usages, certsv1.UsageServerAuth) {
		usage = x509.ExtKeyUsageServerAuth
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(100 + len(a.requests))), Subject: req.Subject,
		DNSNames: req.DNSNames, IPAddresses: req.IPAddresses,
		NotBefore: time.Now().Add(-time.Second), NotAfter: time.Now().Add(lifetime),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, req.PublicKey, a.key)
	if err != nil {
		return
	}
	csr.Status.Conditions = []certsv1.CertificateSigningRequestCondition{{Type: certsv1.CertificateApproved,
		Status: v1.ConditionTrue}}
	csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (a *authority) history() (asked, seen []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked), slices.Clone(a.seen)
}

// bootstrapFile is a kubeconfig with a token that may ask for a certificate.
func (a *authority) bootstrapFile(t *testing.T, dir string) string {
	t.Helper()
	doc := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"u","user":{"token":"abc"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, a.URL, a.rootBase64())
	path := filepath.Join(dir, "bootstrap.kubeconfig")
	must(t, os.WriteFile(path, []byte(doc), 0o600))
	return path
}

func (a *authority) rootBase64() string {
	text, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}))
	return strings.Trim(string(text), `"`)
}

// TestClientCertificate: a node that has only a bootstrap token gets a certificate, works with it, and writes a
// kubeconfig that a later start uses without the token.
func TestClientCertificate(t *testing.T) {
	t.Run("links", func(t *testing.T) { testClientCertificate(t, false) })
	t.Run("one file, as on Windows", func(t *testing.T) { testClientCertificate(t, true) })
}

func testClientCertificate(t *testing.T, oneFile bool) {
	a := newAuthority(t, time.Hour)
	dir := t.TempDir()
	c := Credentials{Node: "n1", Kubeconfig: filepath.Join(dir, "kubeconfig"), Bootstrap: a.bootstrapFile(t, dir),
		CertDir: filepath.Join(dir, "pki"),
		Rotate:  true, UserAgent: "test", QPS: -1, Lost: func(err error) { t.Error(err) }, oneFile: oneFile}
	connect := func(ctx context.Context) {
		cfg, err := c.Connect(ctx)
		must(t, err)
		client, err := typed(cfg)
		must(t, err)
		wait.NoError(t, 30*time.Second, "reading the node", func() error {
			_, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			return err
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	connect(ctx)
	cancel()
	if asked, seen := a.history(); !slices.Equal(asked,
		[]string{"bootstrap for kubernetes.io/kube-apiserver-client-kubelet"}) || len(seen) != 1 {
		t.Fatalf("asked %v, presented %v", asked, seen)
	}
	current := filepath.Join(c.CertDir, "kubelet-client-current.pem")
	if link, err := os.Readlink(current); oneFile == (err == nil) {
		t.Errorf("the current certificate is a link to %q: %v", link, err)
	}
	info, err := os.Stat(current)
	must(t, err)
	if info.Mode().Perm() != 0o600 && !platform.IsWindows {
		t.Errorf("the key has permissions %v", info.Mode().Perm())
	}
	if entries, err := os.ReadDir(c.CertDir); oneFile && (err != nil || len(entries) != 1) {
		t.Errorf("the folder of certificates has %v, %v", entries, err)
	}

	// The next start needs no token.
	must(t, os.Remove(c.Bootstrap))
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	connect(ctx)
	if asked, _ := a.history(); len(asked) != 1 {
		t.Errorf("a start with a valid certificate asked for another: %v", asked)
	}
}

// TestClientRotation: a certificate that expires within seconds is replaced in time, and the new one is used over new
// connections.
func TestClientRotation(t *testing.T) {
	for name, oneFile := range map[string]bool{"links": false, "one file, as on Windows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testClientRotation(t, oneFile)
		})
	}
}

func testClientRotation(t *testing.T, oneFile bool) {
	a := newAuthority(t, 5*time.Second)
	dir := t.TempDir()
	c := Credentials{Node: "n1", Kubeconfig: filepath.Join(dir, "kubeconfig"), Bootstrap: a.bootstrapFile(t, dir),
		CertDir: filepath.Join(dir, "pki"),
		Rotate:  true, UserAgent: "test", QPS: -1, Lost: func(err error) { t.Error(err) }, check: 50 * time.Millisecond,
		oneFile: oneFile}
	cfg, err := c.Connect(t.Context())
	must(t, err)
	client, err := typed(cfg)
	must(t, err)
	wait.NoError(t, 30*time.Second, "a second certificate in use", func() error {
		_, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		asked, seen := a.history()
		if err == nil && len(seen) < 2 {
			err = fmt.Errorf("asked %v, presented %v", asked, seen)
		}
		return err
	})
	if asked, _ := a.history(); !strings.HasPrefix(asked[1], "system:node:n1 for") {
		t.Errorf("the second was not asked for with the first: %v", asked)
	}
}

// TestServingCertificate: the server's certificate has the node's addresses, and follows them.
func TestServingCertificate(t *testing.T) {
	a := newAuthority(t, time.Hour)
	dir := t.TempDir()
	_, cfg, err := Load(a.bootstrapFile(t, dir), "test", -1, 0)
	must(t, err)
	client, err := typed(cfg)
	must(t, err)
	var mu sync.Mutex
	addresses := []v1.NodeAddress{}
	k := &Kubelet{node: "n1", client: client}

	get, err := k.ServingCertificate(t.Context(), dir, func() []v1.NodeAddress {
		mu.Lock()
		defer mu.Unlock()
		return addresses
	})
	must(t, err)
	if _, err := get(nil); err == nil || err.Error() != "no serving certificate available for the kubelet" {
		t.Errorf("without an address: %v", err)
	}

	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		mu.Lock()
		addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}, {Type: v1.NodeHostName, Address: "n1"}}
		mu.Unlock()
		wait.NoError(t, 30*time.Second, "a certificate for "+ip, func() error {
			pair, err := get(nil)
			if err != nil {
				return err
			}
			if leaf := pair.Leaf; len(leaf.IPAddresses) != 1 || leaf.IPAddresses[0].String() != ip ||
				!slices.Equal(leaf.DNSNames, []string{"n1"}) ||
				leaf.Subject.CommonName != "system:node:n1" ||
				!slices.Equal(leaf.Subject.Organization, []string{"system:nodes"}) {
				return fmt.Errorf("it is for %v, %v, %v", leaf.IPAddresses, leaf.DNSNames, leaf.Subject)
			}
			return nil
		})
	}

	if asked, _ := a.history(); !strings.HasSuffix(asked[0], " for kubernetes.io/kubelet-serving") {
		t.Errorf("asked %v", asked)
	}
}

func TestServingTemplate(t *testing.T) {
	address := func(kind v1.NodeAddressType, a string) v1.NodeAddress { return v1.NodeAddress{Type: kind, Address: a} }
	if got := servingTemplate("n", []v1.NodeAddress{address(v1.NodeHostName, "n")}); got != nil {
		t.Errorf("without an IP address: %+v", got)
	}
	got := servingTemplate("n",
		[]v1.NodeAddress{address(v1.NodeInternalIP, "fd00::1"), address(v1.NodeExternalIP, "203.0.113.9"),
			address(v1.NodeInternalIP, "10.0.0.1"),
			address(v1.NodeHostName, "z"), address(v1.NodeInternalDNS, "a"), address(v1.NodeExternalDNS, "a"),
			address(v1.NodeHostName, "10.0.0.1"), address(v1.NodeInternalIP, "")})
	if fmt.Sprint(got.IPAddresses) != "[10.0.0.1 203.0.113.9 fd00::1]" ||
		!slices.Equal(got.DNSNames, []string{"a", "z"}) {
		t.Errorf("for %v and %v", got.IPAddresses, got.DNSNames)
	}
}
