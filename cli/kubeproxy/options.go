package kubeproxy

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	config "k8s.io/kube-proxy/config/v1alpha1"

	"porthole.dev/porthole/internal/logging"
)

// options returns all flags of upstream's kube-proxy v1.36 (cmd/kube-proxy/app/options.go and init_windows.go, the
// logging options of component-base, --version), and ours.
func options() []option {
	var all []option
	for _, group := range [][]option{clientOptions(), addressOptions(), modeOptions(), runOptions(), logOptions(),
		linuxOptions()} {
		all = append(all, group...)
	}
	return all
}

func clientOptions() []option {
	return []option{
		{"kubeconfig", "kubeconfig file with the API server's address and our credentials", text, false,
			toText(func(s *settings) *string { return &s.Config.ClientConnection.Kubeconfig })},
		{"master", "address of the API server, instead of the kubeconfig's", text, false,
			toText(func(s *settings) *string { return &s.Master })},
		{"kube-api-content-type", "content type of requests; protobuf is used whatever is given", text, false,
			toText(func(s *settings) *string { return &s.Config.ClientConnection.ContentType })},
		{"kube-api-burst", "requests to the API server at once (default 100)", number, false,
			toNumber(func(s *settings) *int32 { return &s.Config.ClientConnection.Burst })},
		{"kube-api-qps", "requests to the API server per second (default 50)", decimal, false,
			func(s *settings, v string) error {
				f, err := strconv.ParseFloat(v, 32)
				s.Config.ClientConnection.QPS = float32(f)
				return err
			}},
		{"config-sync-period", "accepted for upstream's sake: nothing is read twice, so nothing is refreshed", duration,
			false,
			toDuration(func(s *settings) *metav1.Duration { return &s.Config.ConfigSyncPeriod })},
	}
}

func addressOptions() []option {
	return []option{
		{"hostname-override", "name of this node; empty: the host's name in lower case", text, false,
			toText(func(s *settings) *string { return &s.override })},
		{"bind-address", "this node's primary address; its family decides the defaults of the addresses below", text,
			false,
			toText(func(s *settings) *string { return &s.Config.BindAddress })},
		{"healthz-bind-address",
			"address and port of /healthz, /livez and /readyz (default 0.0.0.0:10256); given empty: none", text, false,
			func(s *settings, v string) error { s.Config.HealthzBindAddress, s.noHealthz = v, v == ""; return nil }},
		{"metrics-bind-address",
			"address and port of /metrics, /status and /diff (default 127.0.0.1:10249); given empty: none", text, false,
			func(s *settings, v string) error { s.Config.MetricsBindAddress, s.noMetrics = v, v == ""; return nil }},
		{"healthz-port", "deprecated: use --healthz-bind-address; 0 disables", number, false,
			toNumberPointer(func(s *settings) **int32 { return &s.healthzPort })},
		{"metrics-port", "deprecated: use --metrics-bind-address; 0 disables", number, false,
			toNumberPointer(func(s *settings) **int32 { return &s.metricsPort })},
		{"bind-address-hard-fail", "end when a port cannot be bound (otherwise it is tried again)", boolean, false,
			toBool(func(s *settings) *bool { return &s.Config.BindAddressHardFail })},
		{"nodeport-addresses",
			"ranges of this node's addresses that answer health checks of services and, in mode userspace, node ports; or 'primary'", list, false,
			toList(func(s *settings) *[]string { return &s.Config.NodePortAddresses })},
		{"profiling", "serve /debug/pprof at the metrics address", boolean, false,
			toBool(func(s *settings) *bool { return &s.Config.EnableProfiling })},
		{"show-hidden-metrics-for-version", "accepted for upstream's sake: no metric is hidden", text, false,
			toText(func(s *settings) *string { return &s.Config.ShowHiddenMetricsForVersion })},
	}
}

func modeOptions() []option {
	return []option{
		{"proxy-mode", "kernelspace (the default) or userspace", text, false,
			func(s *settings, v string) error { s.Config.Mode = config.ProxyMode(v); return nil }},
		{"network-name", "name of the pods' HNS network; also from the environment variable KUBE_NETWORK", text, false,
			toText(func(s *settings) *string { return &s.Config.Winkernel.NetworkName })},
		{"enable-dsr",
			"leave the client's address as it is on the way to backends (direct server return); default true without --config", boolean, false,
			toBool(func(s *settings) *bool { return &s.Config.Winkernel.EnableDSR })},

		{"source-vip", "source address of overlay networks' load balancers; empty: one is chosen", text, false,
			toText(func(s *settings) *string { return &s.Config.Winkernel.SourceVip })},
		{"root-hnsendpoint-name", "name of the host's own endpoint in the network; not needed", text, false,
			toText(func(s *settings) *string { return &s.Config.Winkernel.RootHnsEndpointName })},
		{"forward-healthcheck-vip",
			"answer health checks at load balancer addresses too: at a service's healthCheckNodePort, or at the port of --healthz-bind-address", boolean, false,
			toBool(func(s *settings) *bool { return &s.Config.Winkernel.ForwardHealthCheckVip })},
		{"probe-services",
			"connect to a few cluster IPs in each period, and create those again that HNS lists and does not serve (default true)", boolean, false,
			func(s *settings, v string) error {
				on, err := strconv.ParseBool(v)
				s.NoProbes = !on
				return err
			}},
		{"node-access",
			"make node ports and load balancer addresses reachable for programs of this node itself, by load balancers that upstream's proxy does not make; services for which HNS refuses them do without", boolean, false,
			toBool(func(s *settings) *bool { return &s.NodeAccess })},
		{"overlay-relay",
			"on overlay networks too, serve services whose pods listen on different ports by a relay in this program, at the node's address; not tried on Windows", boolean, false,
			toBool(func(s *settings) *bool { return &s.OverlayRelay })},
		{"cluster-cidr", "ranges of pod addresses in the cluster, with commas", text, false,
			toText(func(s *settings) *string { return &s.Config.ClusterCIDR })},

		{"service-interface",
			"mode userspace: interface that gets the services' addresses; also from INTERFACE_TO_ADD_SERVICE_IP", text,
			false,
			toText(func(s *settings) *string { return &s.ServiceInterface })},
		{"state-file",
			"file that keeps which addresses are ours (mode userspace), or in which boot HNS was written, so that load balancers are replaced once after a reboot (mode kernelspace); default: a file in C:\\var\\lib\\kube-proxy, and C:\\ProgramData\\Porthole\\boot-services.json", text, false,
			toText(func(s *settings) *string { return &s.StateFile })},
	}
}

func runOptions() []option {
	return []option{
		{"config", "KubeProxyConfiguration file (kubeproxy.config.k8s.io/v1alpha1); the proxy ends when it changes",
			text, false,
			func(*settings, string) error { return nil }}, // read before all others
		{"write-config-to", "write the configuration with defaults and flags to this file, and end", text, false,
			toText(func(s *settings) *string { return &s.writeTo })},
		{"cleanup", "remove everything that this proxy has set up, and end", boolean, false,
			toBool(func(s *settings) *bool { return &s.cleanup })},
		{"init-only", "end before serving: nothing has to be set up in advance", boolean, false,
			toBool(func(s *settings) *bool { return &s.initOnly })},
		{"version", "print the version and end", text, false,
			func(s *settings, v string) error { s.version = v != "false"; return nil }},
		{"windows-service", "run under the service manager of Windows", boolean, false,
			toBool(func(s *settings) *bool { return &s.Config.WindowsRunAsService })},
		{"feature-gates", "accepted for upstream's sake; what they switch is always on, or not here", text, false,
			setGates},
	}
}

// logOptions are the flags about logs. Some have no effect and exist because upstream's proxy has them: a command line
// that is taken over from it must not fail.
func logOptions() []option {
	return []option{
		{"v", "log verbosity: 2 one line per plan, 4 each operation", number, false, func(s *settings, v string) error {
			n, err := strconv.ParseUint(v, 10, 32)
			s.Config.Logging.Verbosity = logsapi.VerbosityLevel(n)
			return err
		}},
		{"vmodule", "verbosity by file: pattern=level,…", text, false, setModules},

		// cli/program reads these three before all flags are parsed
		{logging.FileFlag, logging.FileHelp, text, false, ignored},
		{logging.SizeFlag, logging.SizeHelp, number, false, checkCount},
		{logging.CountFlag, logging.CountHelp, number, false, checkCount},
		{"logging-format", "text or json (default text)", text, false,
			toText(func(s *settings) *string { return &s.Config.Logging.Format })},
		{"log-flush-frequency", "accepted for upstream's sake: every line is written at once", duration, false,
			func(s *settings, v string) error {
				d, err := time.ParseDuration(v)
				s.Config.Logging.FlushFrequency.Duration.Duration = d
				return err
			}},
		{"log-text-split-stream", "alpha upstream; all goes to standard error", boolean, false, ignored},
		{"log-text-info-buffer-size", "alpha upstream; nothing is buffered", text, false, ignored},
		{"log-json-split-stream", "alpha upstream; all goes to standard error", boolean, false, ignored},
		{"log-json-info-buffer-size", "alpha upstream; nothing is buffered", text, false, ignored},
	}
}

func ignored(*settings, string) error { return nil }

func checkCount(_ *settings, v string) error {
	_, err := strconv.ParseUint(v, 10, 16)
	return err
}

// linuxOptions returns the flags for iptables, ipvs, nftables, conntrack and interfaces of Linux.
func linuxOptions() []option {
	ipvs := func(s *settings) *config.KubeProxyIPVSConfiguration { return &s.Config.IPVS }
	track := func(s *settings) *config.KubeProxyConntrackConfiguration { return &s.Config.Conntrack }
	all := []option{
		{"iptables-masquerade-bit", "mark of packets to masquerade", number, false,
			toNumberPointer(func(s *settings) **int32 { return &s.Config.IPTables.MasqueradeBit })},
		{"masquerade-all", "masquerade all traffic to cluster IPs", boolean, false,
			toBool(func(s *settings) *bool { return &s.Config.IPTables.MasqueradeAll })},
		{"iptables-localhost-nodeports", "node ports on loopback", boolean, false,
			toBoolPointer(func(s *settings) **bool { return &s.Config.IPTables.LocalhostNodePorts })},
		{"ipvs-sync-period", "period of full syncs", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &ipvs(s).SyncPeriod })},
		{"ipvs-min-sync-period", "least time between syncs", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &ipvs(s).MinSyncPeriod })},
		{"ipvs-scheduler", "scheduler", text, false, toText(func(s *settings) *string { return &ipvs(s).Scheduler })},
		{"ipvs-exclude-cidrs", "ranges to leave alone", list, false,
			toList(func(s *settings) *[]string { return &ipvs(s).ExcludeCIDRs })},
		{"ipvs-strict-arp", "arp_ignore and arp_announce", boolean, false,
			toBool(func(s *settings) *bool { return &ipvs(s).StrictARP })},
		{"ipvs-tcp-timeout", "idle TCP", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &ipvs(s).TCPTimeout })},
		{"ipvs-tcpfin-timeout", "TCP after FIN", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &ipvs(s).TCPFinTimeout })},
		{"ipvs-udp-timeout", "idle UDP", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &ipvs(s).UDPTimeout })},
		{"detect-local-mode", "how to tell local traffic; HNS knows it", text, false,
			func(s *settings, v string) error { s.Config.DetectLocalMode = config.LocalMode(v); return nil }},
		{"pod-bridge-interface", "bridge of the pods", text, false,
			toText(func(s *settings) *string { return &s.Config.DetectLocal.BridgeInterface })},
		{"pod-interface-name-prefix", "interfaces of the pods", text, false,
			toText(func(s *settings) *string { return &s.Config.DetectLocal.InterfaceNamePrefix })},
		{"oom-score-adj", "oom_score_adj", number, false,
			toNumberPointer(func(s *settings) **int32 { return &s.Config.OOMScoreAdj })},
		{"conntrack-max-per-core", "connections to track", number, false,
			toNumberPointer(func(s *settings) **int32 { return &track(s).MaxPerCore })},
		{"conntrack-min", "connections to track", number, false,
			toNumberPointer(func(s *settings) **int32 { return &track(s).Min })},
		{"conntrack-tcp-timeout-established", "idle TCP", duration, false,
			toDurationPointer(func(s *settings) **metav1.Duration { return &track(s).TCPEstablishedTimeout })},
		{"conntrack-tcp-timeout-close-wait", "TCP in CLOSE_WAIT", duration, false,
			toDurationPointer(func(s *settings) **metav1.Duration { return &track(s).TCPCloseWaitTimeout })},
		{"conntrack-tcp-be-liberal", "nf_conntrack_tcp_be_liberal", boolean, false,
			toBool(func(s *settings) *bool { return &track(s).TCPBeLiberal })},
		{"conntrack-udp-timeout", "idle UDP", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &track(s).UDPTimeout })},
		{"conntrack-udp-timeout-stream", "idle UDP", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &track(s).UDPStreamTimeout })},
	}

	for i := range all {
		all[i].linux = true
	}
	// Upstream takes these two for every mode but ipvs, on Windows too.
	return append(all,
		option{"iptables-sync-period", "least often that everything is compared with the host (at most 30s)", duration,
			false,
			toDuration(func(s *settings) *metav1.Duration { return &s.Config.IPTables.SyncPeriod })},
		option{"iptables-min-sync-period", "least time between two looks at what changed", duration, false,
			toDuration(func(s *settings) *metav1.Duration { return &s.Config.IPTables.MinSyncPeriod })})
}

// gone maps flags of earlier kube-proxies, and of the first ports to Windows, to what replaced them. A name that ends
// in * stands for all flags with that prefix.
var gone = map[string]string{
	"udp-timeout":            "UDP flows of mode userspace end by themselves; kernelspace has none of its own",
	"resource-container":     "put the process in a job object or a service of its own",
	"proxy-port-range":       "mode userspace listens on the services' own addresses and ports",
	"cleanup-ipvs":           "use --cleanup",
	"cleanup-iptables":       "use --cleanup",
	"conntrack-max":          "use --conntrack-max-per-core (Linux only)",
	"legacy-userspace-proxy": "use --proxy-mode=userspace",
	"userspace*":             "use --proxy-mode=userspace",
	"logtostderr":            "everything goes to standard error, or to --log-file",
	"alsologtostderr":        "everything goes to standard error, or to --log-file",
	"log-dir":                "everything goes to standard error, or to --log-file",
	"stderrthreshold":        "everything goes to standard error, or to --log-file",
	"one-output":             "everything goes to standard error, or to --log-file",
	"skip-headers":           "use --logging-format=json",
	"skip-log-headers":       "use --logging-format=json",
	"add-dir-header":         "use --vmodule to choose files",
	"log-backtrace-at":       "use --profiling and /debug/pprof/goroutine",
}
