package volume

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const (
	defaultTokenSeconds = 3600
	maxTokenAge         = 24 * time.Hour // a longer-lived token is renewed after this
	tokenJitter         = 10 * time.Second
)

// tokenKey tells tokens of one pod apart.
type tokenKey struct {
	audience string
	seconds  int64
}

type token struct {
	value   string
	expires time.Time
	renew   time.Time // from here on a new one is asked for
}

// renewTime is at 80 % of the life of a token, at most 24 hours after now, minus jitter.
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

// token returns a token for the pod, from memory until it is due. A token that cannot be renewed is used until it
// expires.
func (m *Manager) token(ctx context.Context, p *podVolumes, pod *v1.Pod, s *v1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{audience: s.Audience, seconds: defaultTokenSeconds}
	if s.ExpirationSeconds != nil {
		key.seconds = *s.ExpirationSeconds
	}
	p.mu.Lock()
	have, ok := p.tokens[key]
	p.mu.Unlock()
	now := m.opts.Now()
	if ok && now.Before(have.renew) {
		return have.value, nil
	}
	fresh, err := m.requestToken(ctx, pod, key)
	if err != nil {
		if !ok || !now.Before(have.expires) {
			return "", err
		}
		klog.FromContext(ctx).Error(err, "Keeping the service account token that could not be renewed", "pod", klog.KObj(pod), "expires", have.expires)
		have.renew = now.Add(time.Minute)
		fresh = have
	}
	p.mu.Lock()
	p.tokens[key] = fresh
	p.mu.Unlock()
	notify(p.renewed)
	return fresh.value, nil
}

func (m *Manager) requestToken(ctx context.Context, pod *v1.Pod, key tokenKey) (token, error) {
	if m.opts.Tokens == nil {
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
	answer, err := m.opts.Tokens.RequestToken(ctx, pod.Namespace, account, request)
	if err != nil {
		return token{}, fmt.Errorf("requesting token of service account %s: %w", account, err)
	}
	now, expires := m.opts.Now(), answer.Status.ExpirationTimestamp
	if expires.IsZero() {
		expires = metav1.NewTime(now.Add(time.Duration(key.seconds) * time.Second))
	}
	return token{
		value:   answer.Status.Token,
		expires: expires.Time,
		renew:   renewTime(now, expires.Time, rand.N(tokenJitter)),
	}, nil
}

func (p *podVolumes) nextToken() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next time.Time
	for _, t := range p.tokens {
		if next.IsZero() || t.renew.Before(next) {
			next = t.renew
		}
	}
	return next, !next.IsZero()
}
