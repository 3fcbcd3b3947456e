package kubelet

import (
	"context"
	"errors"
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

// resolverLife is how long the node's DNS settings are used after they were read, so that pods that start together
// read them once. It is short because Windows reports changes of addresses and interfaces, but none of DNS servers.
const resolverLife = time.Second

// hostResolver reads the node's own DNS settings, for pods with the policy Default. Like upstream's kubelet it reads
// them at each start of a pod: servers can come after the kubelet has started (DHCP), and move to another adapter. It
// is safe for concurrent use.
type hostResolver struct {
	// source is a file in the format of resolv.conf, systemDNS on Windows, or empty for no settings.
	source  string
	nodeIPs func() []string
	// adapters reads what the adapters of a Windows node have. Nil: the node is not one of Windows.
	adapters func() (servers, searches []string, err error)

	mu   sync.Mutex
	last dns.Config
	at   time.Time // when last was read; zero before
}

// newHostResolver reads a file; on Windows, where there is none, it asks the adapters.
func newHostResolver(source string, nodeIPs func() []string) *hostResolver {
	r := &hostResolver{source: source, nodeIPs: nodeIPs}
	if platform.IsWindows {
		r.adapters = platform.ReadResolver
	}
	return r
}

// errNoServers says that no adapter has a DNS server where one had before.
var errNoServers = errors.New("no adapter of this host has a DNS server at the moment")

// settings returns the settings as they are now. If they cannot be read, it logs that and returns the last ones.
func (r *hostResolver) settings(ctx context.Context) dns.Config {
	c, err := r.read()
	if err != nil {
		klog.FromContext(ctx).Error(err,
			"Reading the node's DNS settings failed; pods get the settings that it had before")
	}
	return c
}

// read returns the settings as they are now, or with an error the last ones. That all servers of a Windows node's
// adapters are gone is an error too: the adapter of a new virtual switch can be without those of its card
// (docs/windows-facts.md). A pod that starts then would have no server for as long as it lives.
func (r *hostResolver) read() (dns.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < resolverLife {
		return r.last, nil
	}

	c, err := r.hostDNS()
	if err == nil && r.ofAdapters() && len(c.Servers) == 0 && len(r.last.Servers) > 0 {
		err = errNoServers
	}
	if err == nil {
		r.last, r.at = c, time.Now()
	}
	return r.last, err
}

// ofAdapters reports whether the settings are those of a Windows node's adapters.
func (r *hostResolver) ofAdapters() bool { return r.source == systemDNS && r.adapters != nil }

// hostDNS reads the DNS settings for pods with the policy Default: the node's own, or none without a source.
func (r *hostResolver) hostDNS() (dns.Config, error) {
	switch {
	case r.source == "":
		return dns.NoResolver(r.nodeIPs()), nil
	case r.ofAdapters():
		servers, searches, err := r.adapters()
		if err != nil {
			return dns.Config{}, fmt.Errorf("reading resolvConf %q: %w", r.source, err)
		}
		return dns.Config{Servers: servers, Searches: searches}, nil
	}
	text, err := os.ReadFile(r.source)
	if err != nil {
		return dns.Config{}, fmt.Errorf("reading resolvConf: %w", err)
	}
	return dns.Parse(string(text)), nil
}
