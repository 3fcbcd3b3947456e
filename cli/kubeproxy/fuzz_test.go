package kubeproxy

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	config "k8s.io/kube-proxy/config/v1alpha1"

	node "porthole.dev/porthole/node/kubeproxy"
)

const configKind = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

// checkSettings fails if resolved settings lack what the modes rely on.
func checkSettings(t *testing.T, s *settings) {
	t.Helper()
	if s.Mode != node.Kernelspace && s.Mode != node.Userspace || s.Hostname == "" ||
		s.Hostname != strings.ToLower(strings.TrimSpace(s.Hostname)) {
		t.Fatalf("mode %q, host %q", s.Mode, s.Hostname)
	}

	for _, address := range []string{s.Healthz, s.Metrics} {
		if address == "" {
			continue
		}
		if a, err := net.ResolveTCPAddr("tcp", address); err != nil || a.Port == 0 {
			t.Fatalf("address %q: %v", address, err)
		}
	}

	for _, p := range slices.Concat(s.ClusterRanges, s.NodePortRanges) {
		if p != p.Masked() || !p.IsValid() {
			t.Fatalf("range %v", p)
		}
	}
	if s.Config.Winkernel.SourceVip != "" && !s.SourceVIP.IsValid() || s.Settle < 0 || s.Period < 0 ||
		s.Period > longestPeriod || s.Config.ConfigSyncPeriod.Duration <= 0 {
		t.Fatalf("source VIP %v, periods %v, %v and %v", s.SourceVIP, s.Settle, s.Period,
			s.Config.ConfigSyncPeriod.Duration)
	}

	if _, err := netip.ParseAddr(s.Config.BindAddress); err != nil {
		t.Fatal(err)
	}
	if s.Config.ClientConnection.QPS == 0 || s.Config.ClientConnection.Burst == 0 {
		t.Fatalf("connection %+v", s.Config.ClientConnection)
	}
}

// FuzzConfig: any file and command line yield an error or settings that a proxy can run with. Written out and read
// again these settings are the same.
func FuzzConfig(f *testing.F) {

	f.Add(configKind+"mode: kernelspace\nclusterCIDR: 10.244.0.0/16, fd00::/64\n", "--healthz-port=0",
		"--nodeport-addresses=primary")
	f.Add(configKind+
		"bindAddress: \"::\"\nhealthzBindAddress: 0.0.0.0\nmetricsBindAddress: '[::1]:0'\nwinkernel: null\nclientConnection: {qps: -1, burst: 2147483647}\n", "--v=7", "")
	f.Add(configKind+
		"configSyncPeriod: -1s\niptables: {syncPeriod: 9999999h, minSyncPeriod: 1ns}\nfeatureGates: {A: true}\nnodePortAddresses: [primary, x]\n", "--bind-address=::", "--feature-gates=A=x")
	f.Add(configKind+"mode: 7\nmode: 8\nunknown: {a: [", "--hostname-override= ", "--cluster-cidr=,")
	f.Add("", "--config=x", "--proxy-mode=userspace")
	f.Fuzz(func(t *testing.T, file, first, second string) {
		args := []string{first, second, "--config=x"}
		if file == "" {
			args = args[:2]
		}
		args = slices.DeleteFunc(args,
			func(a string) bool { return a == "" || strings.HasPrefix(a, "-h") || strings.HasPrefix(a, "--help") })
		s, err := parse(t, file, nil, args...)
		if err != nil || s.version {
			return
		}
		checkSettings(t, s)
		data, err := marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(t, string(data), nil, "--config=x")
		if err != nil {
			t.Fatalf("%q %q\n%s\nwritten out: %s\n%v", first, second, file, data, err)
		}
		if diff := cmp.Diff(s.Config, again.Config, cmpopts.EquateEmpty(),
			cmp.AllowUnexported(config.KubeProxyConfiguration{})); diff != "" {
			t.Fatalf("%q %q\n%s\nread again:\n%s", first, second, file, diff)
		}
	})
}
