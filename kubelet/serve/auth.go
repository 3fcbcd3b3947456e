package serve

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	"k8s.io/klog/v2"
)

// Bounds of what a client can make the server keep: answers per cache, and bytes of a token.
const (
	maxCached = 4096
	maxToken  = 64 << 10
)

// attributes returns the verb and the subresources of the node that a request needs the right for, as upstream's
// kubelet has them. The right for one of the subresources is enough.
func attributes(method, path string) (verb string, subresources []string) {
	switch method {
	case http.MethodPost:
		verb = "create"
	case http.MethodPut:
		verb = "update"
	case http.MethodPatch:
		verb = "patch"
	case http.MethodDelete:
		verb = "delete"
	default:
		verb = "get"
	}

	// A path belongs to an endpoint if it is the endpoint's or below it; "/podsx" is not below
	// "/pods".
	below := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	switch {
	case below("/stats"):
		return verb, []string{"stats"}
	case below("/metrics"):
		return verb, []string{"metrics"}
	case below("/logs"):
		return verb, []string{"log"}
	case below("/checkpoint"):
		return verb, []string{"checkpoint"}
	case below("/statusz"):
		return verb, []string{"statusz"}
	case below("/flagz"):
		return verb, []string{"configz"}
	case below("/configz"):
		return verb, []string{"configz", "proxy"}
	case below("/pods"), below("/runningpods"):
		return verb, []string{"pods", "proxy"}
	case below("/healthz"):
		return verb, []string{"healthz", "proxy"}
	}
	return verb, []string{"proxy"}
}

// guard authenticates and authorizes requests. It is safe for concurrent use.
type guard struct {
	opts AuthOptions
	node string

	// It counts questions about tokens of which nothing is known.
	asked limiter // about tokens

	mu     sync.Mutex
	tokens map[[32]byte]cached[*authnv1.UserInfo] // by hash of the token
	// tokens that are not valid, apart: they cannot push out those that are
	refused map[[32]byte]cached[bool]
	rights  map[[32]byte]cached[bool] // by hash of the review's spec
	pool    *x509.CertPool
	poolAt  time.Time // modification time of the CA file
}

// cached is an answer of the API server with the time until which it is used again.
type cached[T any] struct {
	value T
	until time.Time
}

var (
	errUnauthorized = errors.New("unauthorized")
	// errAskedTooOften is about a token of which nothing is known, from a client that had many of those.
	errAskedTooOften = errors.New("too many unknown tokens")
)

func newGuard(opts AuthOptions, node string) *guard {
	orTime(&opts.TokenTTL, 2*time.Minute)
	orTime(&opts.AllowedTTL, 5*time.Minute)
	orTime(&opts.DeniedTTL, 30*time.Second)
	return &guard{opts: opts, node: node, tokens: map[[32]byte]cached[*authnv1.UserInfo]{},
		refused: map[[32]byte]cached[bool]{}, rights: map[[32]byte]cached[bool]{}}
}

// orTime replaces zero by a default.
func orTime(p *time.Duration, d time.Duration) {
	if *p == 0 {
		*p = d
	}
}

// wrap returns a handler that passes on only requests that are allowed.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := g.authenticate(r)
		if errors.Is(err, errAskedTooOften) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many unknown tokens", http.StatusTooManyRequests)
			return
		}
		// Credentials that are not valid are the client's fault and not logged; other errors are
		// the node's or the API server's.
		if err != nil {
			if !errors.Is(err, errUnauthorized) {
				klog.FromContext(r.Context()).Error(err, "Could not authenticate a request", "remote", r.RemoteAddr)
			}
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}

		verb, subs := attributes(r.Method, r.URL.Path)
		allowed, err := g.authorize(r.Context(), user, verb, subs)
		if err != nil {
			klog.FromContext(r.Context()).
				Error(err, "Could not authorize a request", "user", user.Username, "verb", verb, "path", r.URL.Path)
			http.Error(w, "Authorization error "+describe(user, verb, subs), http.StatusInternalServerError)
			return
		}
		if !allowed {
			http.Error(w, "Forbidden "+describe(user, verb, subs), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// describe is what upstream's kubelet tells a client that is refused.
func describe(user authnv1.UserInfo, verb string, subs []string) string {
	return fmt.Sprintf("(user=%s, verb=%s, resource=nodes, subresource(s)=%v)", user.Username, verb, subs)
}

// authenticate returns the user of a request: by its client certificate, or else by its token. A request with
// credentials that are not valid is refused; it does not count as anonymous. Where tokens are not asked about, they
// say nothing, as with upstream.
func (g *guard) authenticate(r *http.Request) (authnv1.UserInfo, error) {
	var failed error
	// Without a CA to check it with, a certificate is not looked at. One that is not valid may come with a token that
	// is.
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && g.opts.ClientCAFile != "" {
		user, err := g.fromCertificate(r.TLS.PeerCertificates)
		if err == nil {
			return user, nil
		}
		failed = err
	}

	if token := bearer(r); token != "" && g.opts.Tokens {
		if g.opts.Reviewer == nil || len(token) > maxToken {
			return authnv1.UserInfo{}, errors.Join(failed, errUnauthorized)
		}
		user, err := g.fromToken(r.Context(), token, r.RemoteAddr)
		if err == nil {
			return user, nil
		}
		failed = errors.Join(failed, err)
	}

	if failed != nil {
		return authnv1.UserInfo{}, failed
	}
	if g.opts.Anonymous {
		return authnv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, nil
	}
	return authnv1.UserInfo{}, errUnauthorized
}

// bearer removes the token from a request and returns it, so that no handler sees it. The token is in the header
// Authorization or, if a browser opens a websocket, in the name of a protocol. bearer returns "" if there is none.
func bearer(r *http.Request) string {
	if kind, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(kind, "bearer") {
		r.Header.Del("Authorization")
		return strings.TrimSpace(token)
	}

	// Browsers cannot set Authorization for a websocket, so Kubernetes takes the token in the name
	// of a protocol, which the server must not choose.
	const prefix = "base64url.bearer.authorization.k8s.io."
	token, others := "", []string{}
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for _, name := range strings.Split(line, ",") {
			name = strings.TrimSpace(name)
			if text, ok := strings.CutPrefix(name, prefix); ok {
				if b, err := base64.RawURLEncoding.DecodeString(text); err == nil {
					token = string(b)
				}
				continue
			}
			others = append(others, name)
		}
	}

	if token != "" {
		r.Header.Set("Sec-Websocket-Protocol", strings.Join(others, ","))
	}
	return token
}

// fromCertificate returns the user that a client certificate names. chain begins with it, and goes on with intermediate
// ones.
func (g *guard) fromCertificate(chain []*x509.Certificate) (authnv1.UserInfo, error) {
	pool, err := g.clientCA()
	if err != nil {
		return authnv1.UserInfo{}, err
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}

	// The names are not checked: a client certificate names a user and no host.
	leaf := chain[0]
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return authnv1.UserInfo{}, fmt.Errorf("verifying client certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	// A certificate without a common name is valid and names nobody.
	if leaf.Subject.CommonName == "" {
		return authnv1.UserInfo{}, errUnauthorized
	}
	return authnv1.UserInfo{Username: leaf.Subject.CommonName,
		Groups: append(append([]string{}, leaf.Subject.Organization...), "system:authenticated")}, nil
}

// clientCA returns the certificates of the CA file, which it reads again when the file has changed. If the file cannot
// be read, it returns those that it read before.
func (g *guard) clientCA() (*x509.CertPool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	info, err := os.Stat(g.opts.ClientCAFile)
	if err == nil && g.pool != nil && info.ModTime().Equal(g.poolAt) {
		return g.pool, nil
	}

	var pem []byte
	if err == nil {
		pem, err = os.ReadFile(g.opts.ClientCAFile)
	}
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s holds no certificate", g.opts.ClientCAFile)
	}
	if err != nil {
		if g.pool != nil {
			return g.pool, nil
		}
		return nil, fmt.Errorf("reading client CA: %w", err)
	}
	g.pool, g.poolAt = pool, info.ModTime()
	return pool, nil
}

// fromToken returns the user whom the API server names for a token. Answers are kept for TokenTTL. The API server is
// asked so often for the client at remote, and for all, and not more often: made-up tokens cost it, and the node's
// share of its time, no more than that.
// The token itself is not kept, only its hash.
func (g *guard) fromToken(ctx context.Context, token, remote string) (authnv1.UserInfo, error) {
	key := sha256.Sum256([]byte(token))
	now := time.Now()
	g.mu.Lock()
	hit, known := g.tokens[key]
	no, refused := g.refused[key]
	g.mu.Unlock()
	if known && now.Before(hit.until) {
		return *hit.value, nil
	}
	if refused && now.Before(no.until) {
		return authnv1.UserInfo{}, errUnauthorized
	}

	if !g.asked.allow(remote, now) {
		return authnv1.UserInfo{}, errAskedTooOften
	}
	// The lock is not held while the API server is asked; two requests with one token may both ask.
	status, err := g.opts.Reviewer.ReviewToken(ctx, token, nil)
	if err != nil {
		return authnv1.UserInfo{}, err
	}

	// The time counts from the answer on.
	until := time.Now().Add(g.opts.TokenTTL)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !status.Authenticated {
		trim(g.refused)
		g.refused[key] = cached[bool]{until: until}
		return authnv1.UserInfo{}, errUnauthorized
	}
	user := status.User
	user.Groups = append(append([]string{}, user.Groups...), "system:authenticated")
	trim(g.tokens)
	g.tokens[key] = cached[*authnv1.UserInfo]{value: &user, until: until}
	return user, nil
}

// authorize reports whether a user has the right for verb on one of the subresources subs of this node.
func (g *guard) authorize(ctx context.Context, user authnv1.UserInfo, verb string, subs []string) (bool, error) {
	if !g.opts.Webhook {
		return true, nil
	}
	if g.opts.Reviewer == nil {
		return false, errors.New("there is no API server to ask for rights")
	}
	// An error about one subresource does not keep the right for another one from being enough.
	var failed []error
	for _, sub := range subs {
		ok, err := g.review(ctx, user, verb, sub)
		if ok {
			return true, nil
		}
		failed = append(failed, err)
	}
	return false, errors.Join(failed...)
}

// review asks the API server for one right. Answers are kept for AllowedTTL or DeniedTTL.
func (g *guard) review(ctx context.Context, user authnv1.UserInfo, verb, sub string) (bool, error) {
	spec := authzv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID,
		ResourceAttributes: &authzv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub,
			Name: g.node},
	}
	if len(user.Extra) > 0 {
		spec.Extra = map[string]authzv1.ExtraValue{}
		for k, v := range user.Extra {
			spec.Extra[k] = authzv1.ExtraValue(v)
		}
	}

	text, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("encoding access review: %w", err)
	}
	// The spec names user, groups, verb and subresource, so that its hash stands for all that the
	// answer depends on.
	key := sha256.Sum256(text)
	g.mu.Lock()
	hit, ok := g.rights[key]
	g.mu.Unlock()
	if ok && time.Now().Before(hit.until) {
		return hit.value, nil
	}

	status, err := g.opts.Reviewer.ReviewAccess(ctx, spec)
	if err != nil {
		return false, err
	}
	ttl := g.opts.DeniedTTL
	if status.Allowed {
		ttl = g.opts.AllowedTTL
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	trim(g.rights)
	g.rights[key] = cached[bool]{value: status.Allowed, until: time.Now().Add(ttl)}
	return status.Allowed, nil
}

// trim bounds a cache that is full: it deletes the entries that have expired and, if none has, all of them.
func trim[T any](m map[[32]byte]cached[T]) {
	if len(m) < maxCached {
		return
	}
	now := time.Now()
	for k, c := range m {
		if now.After(c.until) {
			delete(m, k)
		}
	}
	if len(m) >= maxCached {
		clear(m)
	}
}
