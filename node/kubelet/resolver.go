package kubelet

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/dns"
)

// systemDNS in place of a file name stands for the DNS settings of the Windows node itself.
const systemDNS = "Host"

// resolverLife is how long the node's DNS settings are used after they were read, so that pods that start together read them once.
// It is short because Windows reports changes of addresses and interfaces, but none of DNS servers.
const resolverLife = time.Second

// hostResolver reads the node's own DNS settings, for pods with the policy Default. Like upstream's kubelet it reads them at each
// start of a pod: servers can come after the kubelet has started (DHCP), and move to another adapter. It is safe for concurrent use.
type hostResolver struct {
	// source is a file in the format of resolv.conf, systemDNS on Windows, or empty for no settings.
	source  string
	nodeIPs func() []string

	mu   sync.Mutex
	last dns.Config
	at   time.Time // when last was read; zero before
}

// settings returns the settings as they are now. If they cannot be read, it logs that and returns the last ones.
func (r *hostResolver) settings(ctx context.Context) dns.Config {
	c, err := r.read()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the node's DNS settings failed; pods get the settings that it had before")
	}
	return c
}

// read returns the settings as they are now, or with an error the last ones.
func (r *hostResolver) read() (dns.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < resolverLife {
		return r.last, nil
	}
	c, err := hostDNS(r.source, r.nodeIPs())
	if err == nil {
		r.last, r.at = c, time.Now()
	}
	return r.last, err
}

// hostDNS reads the DNS settings for pods with the policy Default: the node's own, or none if source is empty.
func hostDNS(source string, nodeIPs []string) (dns.Config, error) {
	switch {
	case source == "":
		return dns.NoResolver(nodeIPs), nil
	case source == systemDNS && platform.IsWindows:
		servers, searches, err := platform.ReadResolver()
		if err != nil {
			return dns.Config{}, fmt.Errorf("reading resolvConf %q: %w", source, err)
		}
		return dns.Config{Servers: servers, Searches: searches}, nil
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return dns.Config{}, fmt.Errorf("reading resolvConf: %w", err)
	}
	return dns.Parse(string(text)), nil
}
