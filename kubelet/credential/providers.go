package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kubelet/config/v1"
	"k8s.io/kubelet/config/v1beta1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Matcher reports whether a pattern of a registry, with an optional port and path, is about an image.
type Matcher func(pattern, image string) bool

// Providers are the plugins of a node. Make them with Load. They are safe for concurrent use.
type Providers struct {
	list []*provider
	// Matches is how images are matched with patterns; RegistryOf returns the registry of an image. Set both before
	// the first use.
	Matches    Matcher
	RegistryOf func(image string) string
	// Accounts are asked about service accounts for plugins with tokenAttributes; nil for a kubelet without an API
	// server, which does not ask such plugins for pods with an account. Set it before the first use.
	Accounts accounts

	mu      sync.Mutex
	cache   map[string]answer  // by provider and what the answer is for
	flights map[string]*flight // by provider, image and scope
	tokens  map[string]kept    // by account, pod and audience
}

// answer is what a plugin said, until a time.
type answer struct {
	auth  map[string]pluginv1.AuthConfig
	until time.Time
}

// flight is a question under way; all who ask for the image share it.
type flight struct {
	done chan struct{}
	auth map[string]pluginv1.AuthConfig
	err  error
}

// Found are the logins that one plugin knows for an image, in the form of a pull secret.
type Found struct {
	Secret v1.Secret
	// Account is the service account by whose token the plugin knows them; nil if it got none: then they are for all
	// pods of the node.
	Account *v1beta1.ImagePullServiceAccount
}

// Logins returns what plugins know for an image that a pod wants, in the order of the configuration. A plugin that
// fails is logged and knows nothing.
func (p *Providers) Logins(ctx context.Context, image string, pod Pod) []Found {
	var out []Found
	for _, one := range p.list {
		if !p.about(one, image) {
			continue
		}
		q, err := p.questionFor(ctx, one, image, pod)
		if errors.Is(err, errNotForIt) {
			continue
		}
		var auth map[string]pluginv1.AuthConfig
		if err == nil {
			auth, err = p.ask(ctx, one, q, pod)
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "A credential provider plugin gave no logins", "image", image, "pod",
				klog.KRef(pod.Namespace, pod.Name))
		}
		if len(auth) > 0 {
			out = append(out, Found{secret(auth), q.account})
		}
	}
	return out
}

// about reports whether a plugin is asked for an image.
func (p *Providers) about(one *provider, image string) bool {
	for _, pattern := range one.config.MatchImages {
		if p.Matches(pattern, image) {
			return true
		}
	}
	return false
}

// secret has logins in the form of a pull secret.
func secret(auth map[string]pluginv1.AuthConfig) v1.Secret {
	type login struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	logins := map[string]login{}
	for registry, a := range auth {
		logins[registry] = login{a.Username, a.Password}
	}
	text, _ := json.Marshal(map[string]any{"auths": logins}) // texts only
	return v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: text}}
}

// ask returns a plugin's answer: a kept one, that of a question under way, or a new one.
func (p *Providers) ask(ctx context.Context, one *provider, q question, pod Pod) (map[string]pluginv1.AuthConfig,
	error) {
	p.mu.Lock()
	if auth, ok := p.known(one, q, time.Now()); ok {
		p.mu.Unlock()
		return auth, nil
	}
	key := one.config.Name + "\x00" + q.image + q.scope
	f := p.flights[key]
	if f != nil {
		p.mu.Unlock()
		<-f.done
		return f.auth, f.err
	}
	f = &flight{done: make(chan struct{})}
	p.flights[key] = f
	p.mu.Unlock()

	said, err := p.askNow(ctx, one, q, pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.flights, key)
	defer close(f.done)
	if f.err = err; err != nil {
		return nil, err
	}
	f.auth = said.Auth
	p.keep(one, q, said, time.Now())
	return f.auth, nil
}

// askNow runs a plugin, with a token if it gets one.
func (p *Providers) askNow(ctx context.Context, one *provider, q question,
	pod Pod) (*pluginv1.CredentialProviderResponse, error) {
	if q.account != nil && q.token == "" {
		var err error
		if q.token, err = p.token(ctx, one, q.account, pod); err != nil {
			return nil, err
		}
	}
	said, err := one.run(ctx, q)
	if err != nil || q.token == "" ||
		one.config.TokenAttributes.CacheType == configv1.TokenServiceAccountTokenCacheType {
		return said, err
	}
	for _, auth := range said.Auth { // it would be kept for pods with other tokens, and longer than it is good
		if auth.Password == q.token {
			return nil,
				fmt.Errorf(
					"credential provider plugin %s returned the service account token as the password, which is only allowed with the cache type Token", one.config.Name)
		}
	}
	return said, nil
}

// keys are where answers about an image may be: those for it, for its registry, and for all.
func (p *Providers) keys(one *provider, q question) map[pluginv1.PluginCacheKeyType]string {
	name := one.config.Name + "\x00"
	return map[pluginv1.PluginCacheKeyType]string{pluginv1.ImagePluginCacheKeyType: name + "image\x00" +
		q.image + q.scope,
		pluginv1.RegistryPluginCacheKeyType: name + "registry\x00" + p.RegistryOf(q.image) + q.scope,
		pluginv1.GlobalPluginCacheKeyType:   name + "global" + q.scope}
}

// known looks for an answer that is still good. The caller holds the lock.
func (p *Providers) known(one *provider, q question, now time.Time) (map[string]pluginv1.AuthConfig, bool) {
	for _, key := range p.keys(one, q) {
		a, ok := p.cache[key]
		if ok && now.Before(a.until) {
			return a.auth, true
		}
		delete(p.cache, key)
	}
	return nil, false
}

// keep keeps an answer for the time that the plugin, or else the configuration, says. The caller holds the lock.
func (p *Providers) keep(one *provider, q question, said *pluginv1.CredentialProviderResponse, now time.Time) {
	life := one.config.DefaultCacheDuration.Duration
	if said.CacheDuration != nil {
		life = said.CacheDuration.Duration
	}
	// those of tokens that have passed are never looked for
	maps.DeleteFunc(p.cache, func(_ string, a answer) bool { return !now.Before(a.until) })
	if life > 0 {
		p.cache[p.keys(one, q)[said.CacheKeyType]] = answer{said.Auth, now.Add(life)}
	}
}
