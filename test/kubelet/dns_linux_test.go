package kubelet

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestDNSServersComeLate runs kubelet.exe on a host that has no DNS server yet. A pod with the policy Default gets
// those that the host has when the pod starts, and while it has none again, those that it had.
func TestDNSServersComeLate(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	h := newWindowsHost(t, bin)
	h.resolver = "Host"
	hns := h.startHNS(serve.DNSServers{})
	h.startPipe()
	h.startKubelet("npipe:////./pipe/containerd-containerd")
	if got := h.serversOf("early"); got != "[]" {
		t.Fatalf("before the host had DNS servers a pod got %s", got)
	}

	h.giveDNS(hns, "10.99.7.53", "10.99.7.54")
	const first, second = "[10.99.7.53 10.99.7.54]", "[10.99.7.55]"
	h.serversBecome("late", "[]", first)

	const gone = "no adapter of this host has a DNS server at the moment"
	h.giveDNS(hns)
	pods := 0
	wait.NoError(t, 60*time.Second, "a pod that starts without DNS servers", func() error {
		pods++
		if got := h.serversOf(fmt.Sprint("without-", pods)); got != first {
			t.Fatalf("while the host had no DNS server a pod got %s, want those of before, %s", got, first)
		}
		return h.logged(gone)
	})

	h.giveDNS(hns, "10.99.7.55")
	h.serversBecome("changed", first, second)
}

// giveDNS gives the host other DNS servers.
func (h *windowsHost) giveDNS(hns control.Host, addrs ...string) {
	h.t.Helper()
	request := serve.DNSRequest{Servers: serve.DNSServers{}}
	for _, a := range addrs {
		request.Servers = append(request.Servers, netip.MustParseAddr(a))
	}
	must(h.t, hns.Call(h.t.Context(), "POST", "/dns", request, nil))
}

// serversBecome starts pods until one gets those servers. The kubelet uses what it read for a second.
func (h *windowsHost) serversBecome(name, before, want string) {
	h.t.Helper()
	pods := 0
	wait.NoError(h.t, 60*time.Second, "the DNS servers "+want, func() error {
		pods++
		got := h.serversOf(fmt.Sprint(name, "-", pods))
		if got != want && got != before {
			h.t.Fatalf("pod %s-%d got the DNS servers %s, want %s or, for a moment, %s", name, pods, got, want, before)
		}
		if got != want {
			return fmt.Errorf("pod %s-%d got %s", name, pods, got)
		}
		return nil
	})
}

// serversOf starts a pod with the node's DNS settings and returns the servers that its sandbox got.
func (h *windowsHost) serversOf(name string) (servers string) {
	h.t.Helper()
	p := newPod(name, "sleep")
	p.APIVersion, p.Kind, p.Spec.NodeSelector, p.Spec.DNSPolicy = "v1", "Pod", nil, v1.DNSDefault
	must(h.t, testkit.WriteJSON(h.path("manifests", name+".json"), p))
	wait.NoError(h.t, 60*time.Second, "pod "+name, func() error {
		got, ok := h.servers.Load(name + "-win")
		if !ok {
			return fmt.Errorf("it does not start: the runtime was asked for\n%s", h.runtime.Calls())
		}
		servers = got.(string)
		return nil
	})
	return servers
}
