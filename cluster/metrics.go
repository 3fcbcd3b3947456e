package cluster

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/cluster/supervise"
)

//go:embed manifests/metrics.yaml
var metricsManifest string

// metricsPort is where metrics-server listens on lin01. Its default, 10250, is the kubelet's there.
const metricsPort = 4443

// metricsUser is the name in metrics-server's certificate; manifests/metrics.yaml gives it its rights.
const metricsUser = "porthole:metrics-server"

// metricsIdentities are the certificates of metrics-server: the one that it shows to the API server and kubelets, and
// the one that it serves with, under the name by which the API server's aggregation layer asks for it.
func metricsIdentities() []identity {
	return []identity{
		{file: "metrics-server", user: metricsUser},
		{file: "metrics-server-serving", user: metricsUser, hosts: []string{"metrics-server.kube-system.svc"}},
	}
}

// metricsServer is the process of metrics-server. It runs beside the API server, which reaches it without the pod
// network, so that it works in each mode of the network. It starts when it has its rights: before that it would end,
// and be started again later and later.
func metricsServer(p *planner) supervise.Process {
	pki := func(name string) string { return filepath.Join(p.l.PKI(), name) }
	return supervise.Process{
		Name: "metrics-server", Node: "lin01", Path: p.l.Bundled("kube"),
		Netns: p.netns("lin01"), Log: p.l.Log("metrics-server"),
		WaitFor: []supervise.Condition{p.apiReady(), {Path: appliedFile(p.l)}},
		// A cluster of 20 nodes and 100 pods needs less; the collector works harder before the limit is passed.
		Env: []string{"GOMEMLIMIT=64MiB", "GOGC=50"},
		Args: []string{
			"metrics-server",
			"--kubeconfig=" + kubeconfigOf(p.l, "metrics-server"),
			"--authentication-kubeconfig=" + kubeconfigOf(p.l, "metrics-server"),
			"--authorization-kubeconfig=" + kubeconfigOf(p.l, "metrics-server"),
			"--bind-address=" + address(11).String(), fmt.Sprintf("--secure-port=%d", metricsPort),
			"--tls-cert-file=" + pki("metrics-server-serving.crt"),
			"--tls-private-key-file=" + pki("metrics-server-serving.key"),
			// As upstream's manifest has it, but for the period: the figures of a kubelet are 10 s old at most.
			"--metric-resolution=10s", "--kubelet-request-timeout=5s",
			"--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
			// Kubelets that joined by themselves serve with certificates that they signed: the API server does not
			// check them either.
			"--kubelet-insecure-tls",
		},
	}
}

// metricsObjects returns the objects by which the API server and users find metrics-server, with its rights. caPEM is
// the certificate of the cluster's authority.
func metricsObjects(caPEM []byte) string {
	return strings.NewReplacer(
		"$CA_BUNDLE", base64.StdEncoding.EncodeToString(caPEM),
		"$ADDRESS", address(11).String(),
		"$PORT", fmt.Sprint(metricsPort),
	).Replace(metricsManifest)
}
