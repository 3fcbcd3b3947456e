// Package token requests service account tokens for pods and holds them until they are to be renewed.
package token

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

// Key identifies a token among those of one pod.
type Key struct {
	audience string
	seconds  int64
}

// KeyOf returns the key of a token for an audience. seconds is its life; nil is the API server's default.
func KeyOf(audience string, seconds *int64) Key {
	if seconds == nil {
		return Key{audience, defaultTokenSeconds}
	}
	return Key{audience, *seconds}
}

// Token is a service account token.
type Token struct {
	Value   string
	Expires time.Time
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

// Cache holds the service account tokens of one pod. It is safe for concurrent use.
type Cache struct {
	// Renewed: a token was requested, so the next renewal is due at another time.
	Renewed wakeup.Signal

	mu   sync.Mutex
	held map[Key]Token
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{Renewed: wakeup.New(), held: map[Key]Token{}}
}

// Get returns a token for the pod. It comes from the cache until it is due for renewal; if the renewal fails, the old
// token is used until it expires.
func (c *Cache) Get(ctx context.Context, from Asker, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string,
	error) {
	key := KeyOf(s.Audience, s.ExpirationSeconds)
	c.mu.Lock()
	have, ok := c.held[key]
	c.mu.Unlock()
	now := from.Now()
	if ok && now.Before(have.renew) {
		return have.Value, nil
	}

	fresh, err := from.Request(ctx, pod, key)
	// A token that cannot be renewed is used as long as it is valid; the renewal is tried again in
	// a minute.
	if err != nil {
		if !ok || !now.Before(have.Expires) {
			return "", err
		}
		klog.FromContext(ctx).Error(err, "Keeping the service account token that could not be renewed", "pod",
			klog.KObj(pod), "expires", have.Expires)
		have.renew = now.Add(time.Minute)
		fresh = have
	}

	c.mu.Lock()
	c.held[key] = fresh
	c.mu.Unlock()
	c.Renewed.Wake()
	return fresh.Value, nil
}

// Next returns when the next token is due for renewal, false if there is no token.
func (c *Cache) Next() (time.Time, bool) {
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

// Clear drops all tokens.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.held)
}

// Asker asks the API server for tokens.
type Asker struct {
	Requester Requester // nil: there is no API server
	Now       func() time.Time
}

// Request asks for a token that is bound to the pod.
func (a Asker) Request(ctx context.Context, pod *v1.Pod, key Key) (Token, error) {
	if a.Requester == nil {
		return Token{}, fmt.Errorf("no API server to request a service account token from")
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

	answer, err := a.Requester.RequestToken(ctx, pod.Namespace, account, request)
	if err != nil {
		return Token{}, fmt.Errorf("requesting token of service account %s: %w", account, err)
	}

	now := a.Now()
	expires := answer.Status.ExpirationTimestamp
	// Servers that give no time get the one that was asked for.
	if expires.IsZero() {
		expires = metav1.NewTime(now.Add(time.Duration(key.seconds) * time.Second))
	}
	return Token{
		Value:   answer.Status.Token,
		Expires: expires.Time,
		renew:   renewTime(now, expires.Time, rand.N(tokenJitter)),
	}, nil
}

// Requester requests service account tokens; internal/kube implements it.
type Requester interface {
	RequestToken(ctx context.Context, namespace, serviceAccount string,
		request *authv1.TokenRequest) (*authv1.TokenRequest, error)
}
