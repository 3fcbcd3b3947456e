package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kubelet/config/v1"
	"k8s.io/kubelet/config/v1beta1"
)

// Pod is a pod that wants an image. Account is the name of its service account; empty if it has none, as static pods.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Account         string
}

// accounts are the service accounts of the cluster; internal/kube implements it.
type accounts interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	RequestToken(ctx context.Context, namespace, account string, req *authv1.TokenRequest) (*authv1.TokenRequest, error)
}

// question is what a plugin is asked. account is nil, and the rest but image empty, if the plugin gets no token.
type question struct {
	image       string
	account     *v1beta1.ImagePullServiceAccount
	annotations map[string]string // of the account, as many as the plugin is to be given
	token       string
	// scope is for whom an answer is: part of the key under which it is kept.
	scope string
}

// errNotForIt is why a plugin is not asked at all for a pod. It is no failure: an account takes part by an annotation.
var errNotForIt = errors.New("the plugin is not for this pod")

// questionFor returns what a plugin is to be asked for a pod, without the token if the answer is kept for the account
// whatever token it has.
func (p *Providers) questionFor(ctx context.Context, one *provider, image string, pod Pod) (question, error) {
	q := question{image: image}
	a := one.config.TokenAttributes
	switch {
	case a == nil:
		return q, nil
	case pod.Account == "" && *a.RequireServiceAccount:
		return q, errNotForIt
	case pod.Account == "":
		return q, nil
	case p.Accounts == nil:
		return q, errors.New("a kubelet without an API server knows no service accounts")
	}

	sa, err := p.Accounts.ServiceAccount(ctx, pod.Namespace, pod.Account)
	if err != nil {
		return q, fmt.Errorf("reading service account %s/%s: %w", pod.Namespace, pod.Account, err)
	}
	q.annotations = map[string]string{}
	for _, k := range a.RequiredServiceAccountAnnotationKeys {
		value, ok := sa.Annotations[k]
		if !ok {
			return q, errNotForIt
		}
		q.annotations[k] = value
	}
	for _, k := range a.OptionalServiceAccountAnnotationKeys {
		if value, ok := sa.Annotations[k]; ok {
			q.annotations[k] = value
		}
	}

	q.account = &v1beta1.ImagePullServiceAccount{UID: string(sa.UID), Namespace: pod.Namespace, Name: pod.Account}
	if a.CacheType == configv1.TokenServiceAccountTokenCacheType {
		if q.token, err = p.token(ctx, one, q.account, pod); err != nil {
			return q, err
		}
	}
	q.scope, err = scopeOf(q)
	return q, err
}

// scopeOf names an account as a plugin sees it, with the token if the answer is for that alone.
func scopeOf(q question) (string, error) {
	hash := ""
	if q.token != "" {
		sum := sha256.Sum256([]byte(q.token))
		hash = hex.EncodeToString(sum[:])
	}
	text, err := json.Marshal([]any{q.account, q.annotations, hash}) // writes the keys of a map in order
	return "\x00" + string(text), err
}

// kept is a token, with the time from which on another is requested.
type kept struct {
	token string
	until time.Time
}

// token returns a token of a pod's account for a plugin. One is requested again when four fifths of its time have
// passed, as volumes do.
func (p *Providers) token(ctx context.Context, one *provider, account *v1beta1.ImagePullServiceAccount,
	pod Pod) (string, error) {
	audience := one.config.TokenAttributes.ServiceAccountTokenAudience
	key := account.Namespace + "\x00" + account.Name + "\x00" + account.UID + "\x00" + string(pod.UID) + "\x00" +
		audience
	p.mu.Lock()
	have, ok := p.tokens[key]
	p.mu.Unlock()
	if ok && time.Now().Before(have.until) {
		return have.token, nil
	}

	asked := time.Now()
	got, err := p.Accounts.RequestToken(ctx, account.Namespace, account.Name, &authv1.TokenRequest{
		// the account of that name may be another meanwhile: the server compares
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(account.UID)},
		Spec: authv1.TokenRequestSpec{Audiences: []string{audience},
			BoundObjectRef: &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s for %q: %w", account.Namespace, account.Name,
			audience, err)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.tokens, func(_ string, k kept) bool { return !asked.Before(k.until) })
	if life := got.Status.ExpirationTimestamp.Sub(asked); life > 0 {
		p.tokens[key] = kept{got.Status.Token, asked.Add(life * 4 / 5)}
	}
	return got.Status.Token, nil
}

// ByAccount reports whether a plugin gives logins for an image by the pod's service account.
func (p *Providers) ByAccount(image string) bool {
	for _, one := range p.list {
		if one.config.TokenAttributes != nil && p.about(one, image) {
			return true
		}
	}
	return false
}
