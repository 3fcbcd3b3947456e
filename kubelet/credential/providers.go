package credential

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Matcher reports whether a pattern of a registry, with an optional port and path, is about an image.
type Matcher func(pattern, image string) bool

// Providers are the plugins of a node. Make them with Load. They are safe for concurrent use.
type Providers struct {
	list []*provider
	// Matches is how images are matched with patterns; RegistryOf returns the registry of an image. Set both before the first use.
	Matches    Matcher
	RegistryOf func(image string) string

	mu      sync.Mutex
	cache   map[string]answer  // by provider and what the answer is for
	flights map[string]*flight // by provider and image
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
}

// Secrets returns the logins that plugins know for an image, in the form of pull secrets, in the order of the configuration. A plugin
// that fails is logged and has none.
func (p *Providers) Secrets(ctx context.Context, image string) []v1.Secret {
	var out []v1.Secret
	for _, one := range p.list {
		if !p.about(one, image) {
			continue
		}
		if auth := p.ask(ctx, one, image); len(auth) > 0 {
			out = append(out, secret(auth))
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

// ask returns the logins of one plugin for an image, from an earlier answer if that is still good.
func (p *Providers) ask(ctx context.Context, one *provider, image string) map[string]pluginv1.AuthConfig {
	p.mu.Lock()
	if auth, ok := p.known(one, image, time.Now()); ok {
		p.mu.Unlock()
		return auth
	}
	key := one.config.Name + "\x00" + image
	f := p.flights[key]
	if f != nil {
		p.mu.Unlock()
		<-f.done
		return f.auth
	}
	f = &flight{done: make(chan struct{})}
	p.flights[key] = f
	p.mu.Unlock()

	said, err := one.run(ctx, image)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.flights, key)
	defer close(f.done)
	if err != nil {
		klog.FromContext(ctx).Error(err, "A credential provider plugin failed")
		return nil
	}
	f.auth = said.Auth
	p.keep(one, image, said, time.Now())
	return f.auth
}

// keys are where answers about an image may be: those for it, for its registry, and for all.
func (p *Providers) keys(one *provider, image string) map[pluginv1.PluginCacheKeyType]string {
	name := one.config.Name + "\x00"
	return map[pluginv1.PluginCacheKeyType]string{pluginv1.ImagePluginCacheKeyType: name + "image\x00" + image,
		pluginv1.RegistryPluginCacheKeyType: name + "registry\x00" + p.RegistryOf(image), pluginv1.GlobalPluginCacheKeyType: name + "global"}
}

// known looks for an answer that is still good. The caller holds the lock.
func (p *Providers) known(one *provider, image string, now time.Time) (map[string]pluginv1.AuthConfig, bool) {
	for _, key := range p.keys(one, image) {
		a, ok := p.cache[key]
		if ok && now.Before(a.until) {
			return a.auth, true
		}
		delete(p.cache, key)
	}
	return nil, false
}

// keep keeps an answer for the time that the plugin, or else the configuration, says. The caller holds the lock.
func (p *Providers) keep(one *provider, image string, said *pluginv1.CredentialProviderResponse, now time.Time) {
	life := one.config.DefaultCacheDuration.Duration
	if said.CacheDuration != nil {
		life = said.CacheDuration.Duration
	}
	if life > 0 {
		p.cache[p.keys(one, image)[said.CacheKeyType]] = answer{said.Auth, now.Add(life)}
	}
}
