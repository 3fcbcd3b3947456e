package plan

import (
	"fmt"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/process"
	"porthole.dev/porthole/cluster/supervise"
)

// metricsServer is the process of metrics-server. It runs beside the API server, which reaches it without the pod
// network, so that it works in each mode of the network. It starts when it has its rights: before that it would end,
// and be started again later and later.
func metricsServer(l layout.Layout, c config.Cluster) supervise.Process {
	return supervise.Process{
		Name: "metrics-server", Node: "lin01", Path: l.Bundled("kube"),
		Netns: c.Netns("lin01"), Log: l.Log("metrics-server"),
		WaitFor: []supervise.Condition{process.APIReady(c), {Path: l.Applied()}},
		// A cluster of 20 nodes and 100 pods needs less; the collector works harder before the limit is passed.
		Env: []string{"GOMEMLIMIT=64MiB", "GOGC=50"},
		Args: []string{
			"metrics-server",
			"--kubeconfig=" + l.KubeconfigOf("metrics-server"),
			"--authentication-kubeconfig=" + l.KubeconfigOf("metrics-server"),
			"--authorization-kubeconfig=" + l.KubeconfigOf("metrics-server"),
			"--bind-address=" + config.ControlPlane().String(), fmt.Sprintf("--secure-port=%d", config.MetricsPort),
			"--tls-cert-file=" + l.Credential("metrics-server-serving.crt"),
			"--tls-private-key-file=" + l.Credential("metrics-server-serving.key"),
			// As upstream's manifest has it, but for the period: the figures of a kubelet are 10 s old at most.
			"--metric-resolution=10s", "--kubelet-request-timeout=5s",
			"--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
			// Kubelets that joined by themselves serve with certificates that they signed: the API server does not
			// check them either.
			"--kubelet-insecure-tls",
		},
	}
}
