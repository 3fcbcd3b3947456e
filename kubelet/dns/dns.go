// Package dns works out the resolver settings and host name of a pod. It is pure; the node's own settings are handed in.
package dns

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Config is a resolver configuration.
type Config struct{ Servers, Searches, Options []string }

// Cluster is what the kubelet's configuration says.
type Cluster struct {
	Servers []string
	Domain  string
	// Host is the node's own resolver.
	Host Config
}

// Bounds that resolvers have; upstream's values.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// ForPod returns the pod's resolver settings and, if they had to be cut or changed, what to warn about:
// an event's reason and message.
func ForPod(p *v1.Pod, c Cluster) (cfg Config, reason, message string) {
	policy := p.Spec.DNSPolicy
	switch {
	case policy == v1.DNSClusterFirst && p.Spec.HostNetwork, policy == "":
		policy = v1.DNSDefault
	case policy == v1.DNSClusterFirstWithHostNet:
		policy = v1.DNSClusterFirst
	}
	if policy == v1.DNSClusterFirst && len(c.Servers) == 0 {
		reason = "MissingClusterDNS"
		message = fmt.Sprintf("pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to \"Default\" policy.",
			p.Name+"_"+p.Namespace+"("+string(p.UID)+")", p.Spec.DNSPolicy)
		policy = v1.DNSDefault
	}
	switch policy {
	case v1.DNSClusterFirst:
		cfg.Servers = slices.Clone(c.Servers)
		if c.Domain != "" {
			svc := "svc." + c.Domain
			cfg.Searches = []string{p.Namespace + "." + svc, svc, c.Domain}
		}
		cfg.Searches = append(cfg.Searches, c.Host.Searches...)
		cfg.Options = []string{"ndots:5"}
	case v1.DNSNone:
	default:
		cfg = Config{slices.Clone(c.Host.Servers), slices.Clone(c.Host.Searches), slices.Clone(c.Host.Options)}
	}
	if d := p.Spec.DNSConfig; d != nil {
		cfg.Servers = unique(append(cfg.Servers, d.Nameservers...))
		cfg.Searches = unique(append(cfg.Searches, d.Searches...))
		cfg.Options = mergeOptions(cfg.Options, d.Options)
	}
	cfg.Searches = unique(cfg.Searches)
	if text := limit(&cfg); text != "" && reason == "" {
		reason, message = "DNSConfigForming", text
	}
	return cfg, reason, message
}

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func mergeOptions(base []string, more []v1.PodDNSConfigOption) []string {
	out := slices.Clone(base)
	for _, o := range more {
		text := o.Name
		if o.Value != nil && *o.Value != "" {
			text += ":" + *o.Value
		}
		i := slices.IndexFunc(out, func(old string) bool { name, _, _ := strings.Cut(old, ":"); return name == o.Name })
		if i >= 0 {
			out[i] = text
			continue
		}
		out = append(out, text)
	}
	return out
}

func limit(cfg *Config) string {
	var text string
	if len(cfg.Servers) > maxServers {
		cfg.Servers = cfg.Servers[:maxServers]
		text = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " + strings.Join(cfg.Servers, " ")
	}
	cut := false
	if len(cfg.Searches) > maxSearches {
		cfg.Searches, cut = cfg.Searches[:maxSearches], true
	}
	for len(strings.Join(cfg.Searches, " ")) > maxSearchChars {
		cfg.Searches, cut = cfg.Searches[:len(cfg.Searches)-1], true
	}
	if cut {
		text = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(cfg.Searches, " ")
	}
	return text
}

// Parse reads the text of a resolv.conf.
func Parse(text string) Config {
	var c Config
	for _, line := range strings.Split(text, "\n") {
		if i := strings.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			c.Servers = append(c.Servers, f[1])
		case "search":
			c.Searches = nil
			for _, s := range f[1:] {
				if s != "." {
					c.Searches = append(c.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			c.Options = append(c.Options, f[1:]...)
		}
	}
	return c
}

// Hostname is the host name of a pod: at most 63 characters, or the node's own name on the host network.
func Hostname(p *v1.Pod, nodeName, domain string) string {
	if p.Spec.HostnameOverride != nil {
		return *p.Spec.HostnameOverride
	}
	if p.Spec.HostNetwork {
		return nodeName
	}
	name := p.Name
	if p.Spec.Hostname != "" {
		name = p.Spec.Hostname
	}
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-.")
	}
	if p.Spec.SetHostnameAsFQDN != nil && *p.Spec.SetHostnameAsFQDN && p.Spec.Subdomain != "" {
		if full := name + "." + p.Spec.Subdomain + "." + p.Namespace + ".svc." + domain; len(full) <= 64 {
			return full
		}
	}
	return name
}
