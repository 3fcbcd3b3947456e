package effect

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/volume"
)

// TestSandboxHasTheNodesServersOfNow: servers that DHCP gives the node after the kubelet has started are those of
// later pods.
func TestSandboxHasTheNodesServersOfNow(t *testing.T) {
	now := dns.Config{}
	manager := volume.New(volume.Options{})
	t.Cleanup(manager.Close)
	e := For("u", &Options{Groups: manager, NodeName: "node", Cgroups: cgroup.None{},
		HostDNS: func() dns.Config { return now }})
	p := &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSDefault}}
	for _, servers := range [][]string{nil, {"192.0.2.53"}, {"192.0.2.54", "192.0.2.55"}} {
		now.Servers = servers
		spec, err := e.specs.sandbox(p, 0)
		if err != nil || !slices.Equal(spec.DNS.Servers, servers) {
			t.Errorf("a pod gets servers %q, error %v; the node has %q", spec.DNS.Servers, err, servers)
		}
	}
}
