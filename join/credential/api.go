package credential

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// API speaks to an API server in JSON. It is for the few requests by which a machine becomes a node; a client of
// client-go would need a kubeconfig for each identity.
type API struct {
	server string
	token  string
	client *http.Client
	skew   *skew
}

// skew is how far this machine's clock is from the API server's.
type skew struct {
	known bool
	by    time.Duration
}

// requestTime bounds one request. 3 of them that get no answer take 15 s.
const requestTime = 5 * time.Second

// anonymous returns a client without credentials. ca nil: the server's certificate is not verified.
func anonymous(server string, ca *x509.CertPool) *API {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca, InsecureSkipVerify: ca == nil}
	return &API{server: server, client: &http.Client{Timeout: requestTime, Transport: transport(config)}, skew: &skew{}}
}

func transport(config *tls.Config) *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, TLSHandshakeTimeout: requestTime,
		DialContext: (&net.Dialer{Timeout: requestTime}).DialContext, ForceAttemptHTTP2: true}
}

// Close ends the connections.
func (a *API) Close() { a.client.CloseIdleConnections() }

// With returns a client of the same cluster with other credentials: a token, or a certificate if that is not nil.
func (c *Cluster) With(token Token, pair *tls.Certificate) (*API, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CA) {
		return nil, errors.New("the cluster's certificate authority holds no certificate")
	}
	a := anonymous(c.Server, pool)
	if pair != nil {
		a.client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*pair}
	} else {
		a.token = token.bearer()
	}
	return a, nil
}

// StatusError is an answer of the API server that is no success.
type StatusError struct {
	Code    int
	Reason  string // such as NotFound
	Message string
}

// Error returns the server's own text.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the API server answered %d", e.Code)
	}
	return e.Message
}

// Code returns the HTTP status of an answer of the API server; 0 if err is none.
func Code(err error) int {
	var s *StatusError
	if errors.As(err, &s) {
		return s.Code
	}
	return 0
}

// maxAnswer bounds what is read of an answer. A ConfigMap holds at most 1 MiB.
const maxAnswer = 4 << 20

// Patch sends a merge patch.
func (a *API) Patch(ctx context.Context, path string, patch any) error {
	return a.Do(ctx, http.MethodPatch, path, patch, nil)
}

// Do sends a request with in as its body, nil for none, and reads the answer into out, nil for nobody. The body of a
// PATCH is a merge patch.
func (a *API) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.server+path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "porthole-join")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}

	// The answer's date tells how far this machine's clock is off; *a.skew has the one of the last
	// answer.
	answer, err := a.client.Do(r)
	if err != nil {
		return unreachable(a.server, err)
	}
	defer answer.Body.Close()
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		*a.skew = skew{known: true, by: time.Since(date).Round(time.Second)}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return unreachable(a.server, err)
	}
	return decode(answer.StatusCode, text, out)
}

// decode reads an answer. One that is no success is a *StatusError, without text if the body is no
// Status.
func decode(code int, text []byte, out any) error {
	if code < 200 || code > 299 {
		var s metav1.Status
		if json.Unmarshal(text, &s) != nil || s.Kind != "Status" {
			s = metav1.Status{}
		}
		return &StatusError{Code: code, Reason: string(s.Reason), Message: s.Message}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("reading the API server's answer: %w", err)
	}
	return nil
}

// ErrUnreachable is wrapped by errors of requests that got no answer.
var ErrUnreachable = errors.New("no answer")

// unreachable words why a request got no answer.
func unreachable(server string, err error) error {
	why := err.Error()
	cure := "check the address, the network and firewalls between this machine and the control plane"
	var netErr net.Error
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError

	switch text := err.Error(); {
	case errors.As(err, &dns):
		why = "the name " + dns.Name + " is not known to this machine's name servers"
		cure = "give the address"
	case errors.As(err, &record), strings.Contains(text, "server gave HTTP response"),
		strings.Contains(text, "first record does not look like a TLS handshake"):
		why = "it does not speak TLS"
		cure = "give the port of the API server, usually 6443"
	case errors.As(err, &authority):
		why = "its certificate is not from the cluster's certificate authority"
		cure = "ask the control plane for the address of the API server"
	case strings.Contains(text, "refused"):
		why = "connection refused"
	case strings.Contains(text, "no route to host"), strings.Contains(text, "network is unreachable"),
		strings.Contains(text, "unreachable network"):
		why = "no route to it"
	case errors.As(err, &netErr) && netErr.Timeout(), errors.Is(err, context.DeadlineExceeded):
		why = "no answer in time"
	}
	return fmt.Errorf("%w (%w)",
		&Problem{Check: "ApiServer", Text: fmt.Sprintf("cannot reach %s: %s", server, why), Cure: cure}, ErrUnreachable)
}
