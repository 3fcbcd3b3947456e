package kubelet

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	node "porthole.dev/porthole/node/kubelet"
)

// TestUpstreamFlags parses a command line with every flag that upstream's kubelet 1.36.3 has.
func TestUpstreamFlags(t *testing.T) {
	var names []string
	for _, line := range strings.Split(upstreamFlags, "\n") {
		names = append(names, strings.Fields(line)...)
	}
	if len(names) < 100 {
		t.Fatalf("only %d flags", len(names))
	}
	fs := Command().Flags()
	for _, name := range names {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is not known", name)
		}
	}
}

// upstreamFlags are from cmd/kubelet/app/options/options.go of k8s.io/kubernetes 1.36.3, without those of its logs.
const upstreamFlags = `config config-dir kubeconfig bootstrap-kubeconfig hostname-override node-ip cert-dir cloud-provider root-dir seccomp-default
node-labels lock-file exit-on-lock-contention minimum-container-ttl-duration maximum-dead-containers-per-container maximum-dead-containers
experimental-mounter-path experimental-allocatable-ignore-eviction runtime-cgroups image-credential-provider-config
image-credential-provider-bin-dir enable-server fail-swap-on pod-manifest-path sync-frequency file-check-frequency http-check-frequency
manifest-url manifest-url-header address port read-only-port fail-cgroupv1 container-runtime-endpoint image-service-endpoint anonymous-auth
authentication-token-webhook authentication-token-webhook-cache-ttl client-ca-file authorization-mode
authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl tls-cert-file tls-private-key-file
rotate-server-certificates tls-cipher-suites tls-min-version rotate-certificates registry-qps registry-burst event-qps event-burst
enable-debugging-handlers contention-profiling healthz-port healthz-bind-address oom-score-adj cluster-domain volume-plugin-dir cluster-dns
streaming-connection-idle-timeout node-status-update-frequency minimum-image-ttl-duration image-gc-high-threshold image-gc-low-threshold
volume-stats-agg-period feature-gates kubelet-cgroups system-cgroups provider-id cgroups-per-qos cgroup-driver cgroup-root
cpu-manager-policy cpu-manager-policy-options cpu-manager-reconcile-period qos-reserved topology-manager-policy runtime-request-timeout
hairpin-mode max-pods pod-cidr pod-max-pids resolv-conf runonce cpu-cfs-quota cpu-cfs-quota-period enable-controller-attach-detach
make-iptables-util-chains container-log-max-size container-log-max-files allowed-unsafe-sysctls node-status-max-images
kernel-memcg-notification local-storage-capacity-isolation max-open-files kube-api-content-type kube-api-qps kube-api-burst
serialize-image-pulls eviction-hard eviction-soft eviction-soft-grace-period eviction-pressure-transition-period
eviction-max-pod-grace-period eviction-minimum-reclaim pods-per-core protect-kernel-defaults reserved-cpus topology-manager-scope
topology-manager-policy-options system-reserved kube-reserved enforce-node-allocatable system-reserved-cgroup kube-reserved-cgroup
memory-manager-policy reserved-memory register-node register-with-taints pod-infra-container-image v windows-service windows-priorityclass`

func TestVersion(t *testing.T) {
	c := Command()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs([]string{"--version"})
	if err := c.Execute(); err != nil || out.String() != "Kubernetes "+node.Version+"\n" {
		t.Errorf("%q, error %v", out.String(), err)
	}
}

// TestGoneFlags: each flag of an old script names what replaced it, and none of them is a flag today.
// Row 1.78.
func TestGoneFlags(t *testing.T) {
	for name, instead := range gone {
		given := strings.Replace(name, "*", "endpoint", 1)
		cmd := Command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{"--" + given + "=x"})
		if err := cmd.Execute(); err == nil || err.Error() != "--"+given+" does not exist any more: "+instead {
			t.Errorf("--%s: %v", given, err)
		}
	}
}

// TestRefuses: what cannot work ends the program at once, with the reason.
func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config,
		[]byte(
			"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: false\nresolvConf: ''\npodLogsDir: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct{ args, want string }{
		{"--no-such-flag", "unknown flag: --no-such-flag"},
		{"--max-pod=3", "did you mean --max-pods?"},
		{"stray", "unknown command"},
		{"--config=/no/such/file", "reading the kubelet's configuration"},
		{"--max-pods=-1", "maxPods (--max-pods) -1 must not be a negative number"},
		{"--node-ip=127.0.0.1", "nodeIP can't be loopback address"},
		{"--node-ip=somewhere", `--node-ip: "somewhere" is not an address`},
		{"--node-ip=10.0.0.1,10.0.0.2", "neither one address nor one of each family"},
		{"--node-labels=a", `"a" is not key=value`},
		{"--node-labels=node-role.kubernetes.io/x=y",
			"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [node-role.kubernetes.io/x]"},
		{"--node-labels=-a=b", `--node-labels: "-a"`},
		{"--cloud-provider=aws", "unknown cloud provider: aws"},
		{"--register-with-taints=a=b:Never", "is not key=value:effect"},
		{"--bootstrap-kubeconfig=/x --node-ip=192.0.2.1", "--bootstrap-kubeconfig needs --kubeconfig"},
		{"--kubeconfig=/no/such/file --node-ip=192.0.2.1", "loading kubeconfig /no/such/file"},
	} {
		cmd := Command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		args := []string{"--config=" + config, "--root-dir=" + filepath.Join(dir, "root"), "--hostname-override=n"}
		cmd.SetArgs(append(args, strings.Fields(c.args)...))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // what is accepted would go on
		if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
		cancel()
	}
}
