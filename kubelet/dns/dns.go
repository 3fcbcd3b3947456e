// Package dns works out the resolver settings and the host name of a pod. It is pure: the node's settings are
// arguments.
package dns

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Config is a resolver configuration.
type Config struct{ Servers, Searches, Options []string }

// Cluster is what the kubelet's configuration says about DNS.
type Cluster struct {
	Servers []string
	Domain  string
	// Host is the node's own resolver, as it is when the pod starts.
	Host Config
}

// NoResolver returns the settings for a node without a resolver: the pod's loopback address and no search domain, as
// upstream's kubelet does. It has one server for each of nodeIPs, of the same address family.
func NoResolver(nodeIPs []string) Config {
	c := Config{Searches: []string{"."}}
	for _, ip := range nodeIPs {
		if strings.Contains(ip, ":") {
			c.Servers = append(c.Servers, "::1")
		} else {
			c.Servers = append(c.Servers, "127.0.0.1")
		}
	}
	if len(c.Servers) == 0 {
		c.Servers = []string{"127.0.0.1"}
	}
	return c
}

// Limits of resolver configurations; upstream's values.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// ForPod returns the pod's resolver settings. If they had to be cut or changed, it also returns the reason and message
// of a warning event.
func ForPod(p *v1.Pod, c Cluster) (cfg Config, reason, message string) {
	policy := p.Spec.DNSPolicy
	switch {
	case (policy == v1.DNSClusterFirst || policy == "") && p.Spec.HostNetwork: // a static pod may have ""
		policy = v1.DNSDefault
	case policy == v1.DNSClusterFirstWithHostNet, policy == "":
		policy = v1.DNSClusterFirst
	}

	if policy == v1.DNSClusterFirst && len(c.Servers) == 0 {
		reason = "MissingClusterDNS"
		message = fmt.Sprintf(
			"pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to \"Default\" policy.",
			p.Name+"_"+p.Namespace+"("+string(p.UID)+")", v1.DNSClusterFirst)
		policy = v1.DNSDefault
	}

	switch policy {
	case v1.DNSClusterFirst:
		cfg.Servers = slices.Clone(c.Servers)
		if c.Domain != "" {
			svc := "svc." + c.Domain
			cfg.Searches = []string{p.Namespace + "." + svc, svc, c.Domain}
		}
		for _, s := range c.Host.Searches {
			if s != "." { // the node searches nothing
				cfg.Searches = append(cfg.Searches, s)
			}
		}
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
	cfg.Servers, cfg.Searches = unique(cfg.Servers), unique(cfg.Searches)
	if text := limit(&cfg); text != "" && reason == "" {
		reason, message = "DNSConfigForming", text
	}
	return cfg, reason, message
}

func unique(in []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
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
		out = append(out, text)
	}
	return lastOptions(out)
}

// lastOptions keeps one option "name:value" for each name: the last value, at the place of the first.
func lastOptions(options []string) []string {
	var out []string
	at := map[string]int{}
	for _, text := range options {
		name, _, _ := strings.Cut(text, ":")
		if i, known := at[name]; known {
			out[i] = text
			continue
		}
		at[name] = len(out)
		out = append(out, text)
	}
	return out
}

// limit cuts the servers and search domains of cfg down to what the resolvers in containers read, and returns the
// message of the event about it; "" if nothing was cut. If both are too many, the message is about the search domains
// only.
func limit(cfg *Config) string {
	var text string
	if len(cfg.Servers) > maxServers {
		cfg.Servers = cfg.Servers[:maxServers]
		text = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " +
			strings.Join(cfg.Servers, " ")
	}
	cut := false
	if len(cfg.Searches) > maxSearches {
		cfg.Searches, cut = cfg.Searches[:maxSearches], true
	}
	for len(strings.Join(cfg.Searches, " ")) > maxSearchChars {
		cfg.Searches = cfg.Searches[:len(cfg.Searches)-1]
		cut = true
	}
	if cut {
		text = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " +
			strings.Join(cfg.Searches, " ")
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

	c.Options = lastOptions(c.Options)
	return c
}
