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
	defaultTokenSeconds = 3600             // the API server's default
	maxTokenAge         = 24 * time.Hour   // a token that lives longer is renewed after this time, as upstream does
	tokenJitter         = 10 * time.Second // at most so much earlier, so that pods that started together do not ask together
)

// tokenSource is a service account token as a file. It is only a source of projected volumes.
type tokenSource struct {
	projection *v1.ServiceAccountTokenProjection
	mode       *int32 // of the file; nil is 0644
}

func (tokenSource) need() need { return need{token: true} }

func (s tokenSource) files(ctx context.Context, j job) (content, error) {
	value, err := j.manager.token(ctx, j.state, j.pod, s.projection)
	if err != nil {
		return nil, err
	}
	f := file{data: []byte(value), mode: v1.ProjectedVolumeSourceDefaultMode}
	if s.mode != nil {
		f.mode = *s.mode
	}
	restrictToken(&f, j.pod)
	return content{s.projection.Path: f}, nil
}

// restrictToken lets only the one user of the pod read a token file, and the pod's group (which setAccess adds).
// Without either the mode stays.
func restrictToken(f *file, pod *v1.Pod) {
	f.uid = commonUser(pod)
	if sc := pod.Spec.SecurityContext; f.uid != nil || sc != nil && sc.FSGroup != nil {
		f.mode = 0o600
	}
}

// commonUser returns the user that every container of the pod is told to run as. It returns nil if they differ, or if
// one is not told. Ephemeral containers do not count: they come later, and a file must not change its owner then.
func commonUser(pod *v1.Pod) *int64 {
	var base, common *int64
	if sc := pod.Spec.SecurityContext; sc != nil {
		base = sc.RunAsUser
	}

	same := true
	visit := func(sc *v1.SecurityContext) {
		uid := base
		if sc != nil && sc.RunAsUser != nil {
			uid = sc.RunAsUser
		}
		if uid == nil || common != nil && *common != *uid {
			same = false
		}
		common = uid
	}
	for _, c := range pod.Spec.InitContainers {
		visit(c.SecurityContext)
	}
	for _, c := range pod.Spec.Containers {
		visit(c.SecurityContext)
	}

	if !same {
		return nil
	}
	return common
}

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

// token returns a token for the pod. It comes from memory until it is due for renewal; if the renewal fails, the old
// token is used until it expires.
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
	p.renewed.Wake()
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

// nextToken returns when the next token of the pod is due for renewal, false if it has none.
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
