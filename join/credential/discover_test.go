package credential

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

const testToken = "abcdef.0123456789abcdef"

// control is an API server with cluster-info only.
type control struct {
	*httptest.Server
	info   *v1.ConfigMap // nil: 404
	second *v1.ConfigMap // what the second request gets, if it is another
	ahead  time.Duration // of its clock
	asked  int
}

func newControl(t *testing.T) *control {
	c := &control{}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked++
		w.Header().Set("Date", time.Now().Add(c.ahead).UTC().Format(http.TimeFormat))
		m := c.info
		if c.asked > 1 && c.second != nil {
			m = c.second
		}
		if r.URL.Path != clusterInfo || m == nil {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","reason":"NotFound","message":"configmaps \"cluster-info\" not found"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(m)
	}))
	t.Cleanup(c.Close)
	c.info = clusterInfoOf(c.kubeconfig(), testToken)
	return c
}

func (c *control) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
}

func (c *control) kubeconfig() string {
	return fmt.Sprintf(
		"apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: %s, certificate-authority-data: %s}\n",
		c.URL, base64.StdEncoding.EncodeToString(c.ca()))
}

// clusterInfoOf signs a kubeconfig as kubeadm's controller does.
func clusterInfoOf(kubeconfig, token string) *v1.ConfigMap {
	id, secret, _ := strings.Cut(token, ".")
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(header + "." + base64.RawURLEncoding.EncodeToString([]byte(kubeconfig))))
	return &v1.ConfigMap{Data: map[string]string{"kubeconfig": kubeconfig,
		"jws-kubeconfig-" + id: header + ".." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))}}
}

func (c *control) discovery(t *testing.T, token string, pins ...string) Discovery {
	t.Helper()
	parsed, err := ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	if pins == nil {
		pins = []string{Pin(c.Certificate())}
	}
	return Discovery{Endpoint: strings.TrimPrefix(c.URL, "https://"), Token: parsed, Pins: pins, poll: time.Millisecond,
		patience: 20 * time.Millisecond}
}

func TestDiscover(t *testing.T) {
	c := newControl(t)
	c.ahead = 10 * time.Minute
	found, err := c.discovery(t, testToken).Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Server != c.URL || string(found.CA) != string(c.ca()) || found.CAHash != Pin(c.Certificate()) {
		t.Errorf("found %+v", found)
	}
	if off := found.Skew + 10*time.Minute; !found.SkewKnown || off < -2*time.Second || off > 2*time.Second {
		t.Errorf("the clock differs by %v, want -10m0s", found.Skew)
	}
}

// otherCA returns an authority that somebody made for themselves.
func otherCA(t *testing.T) (*x509.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestDiscoverPinned: of a bundle only the certificates that are pinned are trusted and kept. Whoever has the token
// can sign a bundle with an authority of their own beside that of the cluster.
func TestDiscoverPinned(t *testing.T) {
	c := newControl(t)
	other, otherPEM := otherCA(t)
	own := string(c.ca())
	bundle := func(parts ...string) *v1.ConfigMap {
		return clusterInfoOf(strings.ReplaceAll(c.kubeconfig(), base64.StdEncoding.EncodeToString(c.ca()),
			base64.StdEncoding.EncodeToString([]byte(strings.Join(parts, "")))), testToken)
	}

	for name, parts := range map[string][]string{"last": {own, string(otherPEM)},
		"first": {string(otherPEM), "# a remark\n", own}} {
		c.info = bundle(parts...)
		found, err := c.discovery(t, testToken).Discover(t.Context())
		if err != nil || string(found.CA) != own || found.CAHash != Pin(c.Certificate()) {
			t.Errorf("the other authority %s: %v, %v, want the pinned certificate alone", name, err, found)
		}
	}
	c.info = bundle(string(otherPEM), own)
	if found, err := c.discovery(t, testToken, Pin(other), Pin(c.Certificate())).Discover(t.Context()); err != nil ||
		string(found.CA) != string(otherPEM)+own {
		t.Errorf("both are pinned: %v, %v", err, found)
	}

	saved := Cluster{Server: c.URL, CA: []byte(string(otherPEM) + own)} // by a version that kept all
	limited, err := Pins{Pin(c.Certificate())}.Limit(saved)
	if err != nil || string(limited.CA) != own || limited.Server != c.URL {
		t.Errorf("a bundle that was saved: %s, %v", limited.CA, err)
	}
	if _, err := (Pins{"sha256:00"}).Limit(saved); err == nil {
		t.Error("a bundle without a pinned certificate was taken")
	}

	// The server is that of who has the token: its certificate is in the bundle, and the pinned one, which is public,
	// too.
	if _, err := c.discovery(t, testToken, Pin(other)).Discover(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server whose authority is not pinned: %v", err)
	}
}

// TestDiscoverFails has a row for each text of a discovery that fails.
// Row 1.113.
func TestDiscoverFails(t *testing.T) {
	zeros := "sha256:" + strings.Repeat("0", 64)
	for name, try := range map[string]struct {
		token string
		pins  []string
		spoil func(*control)
		check string
		text  string
	}{
		"wrong hash": {testToken, []string{zeros}, func(*control) {}, "Discovery",
			"wrong --discovery-token-ca-cert-hash, or not your API server"},
		"unknown id": {"aaaaaa.0123456789abcdef", nil, func(*control) {}, "Discovery",
			`token id "aaaaaa" is invalid for this cluster or it has expired`},
		"wrong secret": {"abcdef.ffffffffffffffff", nil, func(*control) {}, "Discovery",
			"failed to verify JWS signature of received cluster info object, can't trust this API Server: wrong token secret"},
		"no ConfigMap": {testToken, nil, func(c *control) { c.info = nil }, "Discovery",
			"not set up for kubeadm tokens (no cluster-info in kube-public)"},
		"no kubeconfig": {testToken, nil, func(c *control) { c.info = &v1.ConfigMap{} }, "Discovery",
			"cluster-info has no kubeconfig"},
		"in between": {testToken, nil,
			func(c *control) { c.second = clusterInfoOf(c.kubeconfig()+"# else\n", testToken) }, "Discovery",
			"somebody stands between"},
		"names a file": {testToken, nil, func(c *control) {
			named := strings.Replace(c.kubeconfig(), "certificate-authority-data: ",
				"certificate-authority: /dev/zero # ", 1)
			c.info = clusterInfoOf(strings.Replace(named, "}", "\n  }", 1), testToken)
		}, "Discovery", `names the file "/dev/zero" in place of certificate-authority-data`},
		"algorithm none": {testToken, nil, func(c *control) { c.info.Data["jws-kubeconfig-abcdef"] = unsigned() },
			"Discovery", "failed to verify JWS"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newControl(t)
			try.spoil(c)

			found, err := c.discovery(t, try.token, try.pins...).Discover(t.Context())
			var p *Problem
			if !errors.As(err, &p) || p.Check != try.check || !strings.Contains(p.Text, try.text) {
				t.Errorf("error %v, want %s: … %s", err, try.check, try.text)
			}
			if found == nil || len(found.CA) > 0 || found.Server != "" {
				t.Errorf("it returned the cluster %+v", found)
			}
			if err != nil && strings.Contains(err.Error(), "0123456789abcdef") {
				t.Errorf("the error has the token's secret: %v", err)
			}
		})
	}
}

func unsigned() string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"abcdef"}`)) + ".."
}

// TestUnreachable has what is not an API server, or not there.
func TestUnreachable(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })

	token, _ := ParseToken(testToken)
	for name, try := range map[string]struct{ endpoint, text string }{
		"plain HTTP":  {strings.TrimPrefix(plain.URL, "http://"), "it does not speak TLS"},
		"closed port": {address, "connection refused"},
		"silent":      {silent.Addr().String(), "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the silent one: it bounds the first try
			defer cancel()
			_, err := Discovery{Endpoint: try.endpoint, Token: token, SkipCA: true, poll: time.Millisecond,
				patience: time.Second}.Discover(ctx)
			var p *Problem
			if !errors.As(err, &p) || p.Check != "ApiServer" ||
				!strings.Contains(p.Text, "cannot reach https://"+try.endpoint+": "+try.text) {
				t.Errorf("error %v, want %s", err, try.text)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", testToken + "\n"} {
		if _, err := ParseToken(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("ParseToken(%q) = %v, want an error without the text", bad, err)
		}
	}
	for _, bad := range []string{"1b00", "md5:1b00", "sha256:1b00", "sha256:" + strings.Repeat("g", 64)} {
		if _, err := ParsePins([]string{bad}); err == nil {
			t.Errorf("ParsePins(%q) has no error", bad)
		}
	}
	for text, want := range map[string]string{"10.0.0.1": "10.0.0.1:6443", "10.0.0.1:443": "10.0.0.1:443",
		"https://api.example/": "api.example:6443", "[fd00::1]": "[fd00::1]:6443"} {
		if got, err := Endpoint(text); err != nil || got != want {
			t.Errorf("Endpoint(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestFileOverTLS: a discovery file comes over TLS alone, also behind a redirect.
func TestFileOverTLS(t *testing.T) {
	open := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "stolen") }))
	defer open.Close()
	closed := httptest.NewTLSServer(http.RedirectHandler(open.URL, http.StatusFound))
	defer closed.Close()
	had := onlyTLS.Transport
	onlyTLS.Transport = closed.Client().Transport
	defer func() { onlyTLS.Transport = had }()
	if text, err := readPath(t.Context(), closed.URL); err == nil ||
		!strings.Contains(err.Error(), "only https is safe") {
		t.Errorf("%q, %v", text, err)
	}
}
