package volume

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
)

const (
	defaultTokenSeconds = 3600           // the API server's default
	maxTokenAge         = 24 * time.Hour // a token that lives longer is renewed after this time, as upstream does
	// at most so much earlier, so that pods that started together do not ask together
	tokenJitter = 10 * time.Second
)

// tokenKey identifies a token among those of one pod.
type tokenKey struct {
	audience string
	seconds  int64
}

type token struct {
	value   string
	expires time.Time
	renew   time.Time // from then on another one is requested
}

// renewTime returns when to renew a token: after 80 % of its life, but at most 24 hours after now, both less jitter. It
// is never before now.
func renewTime(now, expires time.Time, jitter time.Duration) time.Time {
	at := now.Add(expires.Sub(now) / 5 * 4)
	if oldest := now.Add(maxTokenAge); at.After(oldest) {
		at = oldest
	}
	if at = at.Add(-jitter); at.Before(now) {
		return now
	}
	return at
}

// tokenCache holds the service account tokens of one pod. It is safe for concurrent use.
type tokenCache struct {
	// renewed: a token was requested, so the next renewal is due at another time.
	renewed wakeup.Signal

	mu   sync.Mutex
	held map[tokenKey]token
}

func newTokenCache() *tokenCache {
	return &tokenCache{renewed: wakeup.New(), held: map[tokenKey]token{}}
}

// get returns a token for the pod. It comes from the cache until it is due for renewal; if the renewal fails, the old
// token is used until it expires.
func (c *tokenCache) get(ctx context.Context, o *Options, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string,
	error) {
	key := tokenKey{audience: s.Audience, seconds: defaultTokenSeconds}
	if s.ExpirationSeconds != nil {
		key.seconds = *s.ExpirationSeconds
	}

	c.mu.Lock()
	have, ok := c.held[key]
	c.mu.Unlock()
	now := o.Now()
	if ok && now.Before(have.renew) {
		return have.value, nil
	}

	fresh, err := requestToken(ctx, o, pod, key)
	if err != nil {
		if !ok || !now.Before(have.expires) {
			return "", err
		}
		klog.FromContext(ctx).Error(err, "Keeping the service account token that could not be renewed", "pod",
			klog.KObj(pod), "expires", have.expires)
		have.renew = now.Add(time.Minute)
		fresh = have
	}

	c.mu.Lock()
	c.held[key] = fresh
	c.mu.Unlock()
	c.renewed.Wake()
	return fresh.value, nil
}

// next returns when the next token is due for renewal, false if there is no token.
func (c *tokenCache) next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next time.Time
	for _, t := range c.held {
		if next.IsZero() || t.renew.Before(next) {
			next = t.renew
		}
	}
	return next, !next.IsZero()
}

func (c *tokenCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.held)
}

// requestToken asks the API server for a token that is bound to the pod.
func requestToken(ctx context.Context, o *Options, pod *v1.Pod, key tokenKey) (token, error) {
	if o.Tokens == nil {
		return token{}, fmt.Errorf("no API server to request a service account token from")
	}
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}

	answer, err := o.Tokens.RequestToken(ctx, pod.Namespace, account, request)
	if err != nil {
		return token{}, fmt.Errorf("requesting token of service account %s: %w", account, err)
	}

	now, expires := o.Now(), answer.Status.ExpirationTimestamp
	if expires.IsZero() {
		expires = metav1.NewTime(now.Add(time.Duration(key.seconds) * time.Second))
	}
	return token{
		value:   answer.Status.Token,
		expires: expires.Time,
		renew:   renewTime(now, expires.Time, rand.N(tokenJitter)),
	}, nil
}
