package kubelet

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	goruntime "runtime"
	"strconv"

	"google.golang.org/grpc"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/apiconn"
	"porthole.dev/porthole/internal/buildinfo"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/serve"
	"porthole.dev/porthole/kubelet/volume"
	"porthole.dev/porthole/node/facts"
	"porthole.dev/porthole/path"
)

// servedBy holds what the server needs. api is nil on a node without a cluster.
type servedBy struct {
	k       *core.Kubelet
	cfg     *v1beta1.KubeletConfiguration
	api     *kube.Kubelet
	o       *assembly
	runtime *runtime.Runtime
	volumes *volume.Manager
	certDir string
	// runtimeCgroup is the cgroup of the runtime that the command line names; may be empty.
	runtimeCgroup string
	flags         map[string]string // of the command line, by name
}

// serveHTTP starts the kubelet's HTTPS server and its health port. It has its own connection to the runtime, so that
// streams and statistics never wait behind the work on pods.
func serveHTTP(ctx context.Context, s servedBy) (stop func(), err error) {
	k, cfg, o := s.k, s.cfg, s.o
	secure, err := s.tls(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.EnableContentionProfiling && *cfg.EnableProfilingHandler {
		goruntime.SetBlockProfileRate(1) // as upstream: every event
	}
	o.Meter.CountRunning(func() (int, map[string]int) { return count(k.View()) })
	o.Meter.CountPods(o.Pods.Count)
	o.Meter.Registry.MustRegister(buildinfo.Metric(Version))
	if err := apiconn.RegisterMetrics(o.Meter.Registry); err != nil {
		return nil, err
	}

	conn, err := runtime.Dial(cfg.ContainerRuntimeEndpoint, meter.Calls{Meter: o.Meter})
	if err != nil {
		return nil, err
	}

	options := s.answers(conn, secure)
	server, err := serve.New(options)
	if err != nil {
		conn.Close()
		return nil, err
	}

	rotation, err := rotator(k, cfg, s.runtime.ReopenLog)
	if err != nil {
		conn.Close()
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go rotation.Run(ctx)
	go func() {
		defer close(done)
		if err := server.Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "The kubelet API is not served")
		}
	}()
	return func() { cancel(); <-done; conn.Close() }, nil
}

// tls returns what the configuration says of the server's connections.
func (s servedBy) tls(ctx context.Context) (o serve.TLSOptions, err error) {
	cfg := s.cfg
	o = serve.TLSOptions{CertFile: cfg.TLSCertFile, KeyFile: cfg.TLSPrivateKeyFile, CertDir: s.certDir,
		NodeAddresses: s.o.Node.IPs()}
	if cfg.ServerTLSBootstrap && s.api != nil && cfg.TLSCertFile == "" {
		if o.Certificate, err = s.api.ServingCertificate(ctx, s.certDir, s.k.NodeAddresses); err != nil {
			return o, err
		}
	}

	if o.MinVersion, err = cliflag.TLSVersion(cfg.TLSMinVersion); err != nil {
		return o, fmt.Errorf("tlsMinVersion (--tls-min-version): %w", err)
	}
	if o.CipherSuites, err = cliflag.TLSCipherSuites(cfg.TLSCipherSuites); err != nil {
		return o, fmt.Errorf("tlsCipherSuites (--tls-cipher-suites): %w", err)
	}
	if o.Curves, err = cliflag.TLSCurvePreferences(cfg.TLSCurvePreferences); err != nil {
		return o, fmt.Errorf("tlsCurvePreferences (--tls-curve-preferences): %w", err)
	}
	return o, nil
}

// answers returns the server's options: its addresses, who may use it, and where it gets its answers.
func (s servedBy) answers(conn *grpc.ClientConn, secure serve.TLSOptions) serve.Options {
	k, cfg, o := s.k, s.cfg, s.o

	return serve.Options{
		Address:       net.JoinHostPort(cfg.Address, strconv.Itoa(int(o.Node.Port))),
		HealthAddress: healthAddress(cfg), ReadOnlyAddress: readOnlyAddress(cfg),
		NodeName:      o.Node.Name,
		TLS:           secure,
		Auth:          authOptions(cfg, s.api),
		NoDebugging:   cfg.EnableDebuggingHandlers != nil && !*cfg.EnableDebuggingHandlers,
		NoProfiling:   cfg.EnableProfilingHandler != nil && !*cfg.EnableProfilingHandler,
		NoFlagChanges: !*cfg.EnableDebugFlagsHandler,
		Pods:          k.View,
		Streams:       runtime.NewStreams(conn),
		Exec:          s.runtime.Exec,
		Checkpoint:    s.runtime.Checkpoint,
		Stats:         runtime.NewStats(conn),
		Metrics:       o.Meter.Registry, ProbeMetrics: o.Meter.Probes,
		Volumes: volume.Measure{Of: s.volumes},
		RootDir: o.RootDir,
		Config:  cfg,
		Flags:   s.flags,
		Version: Version,
		Logs:    serve.LogsOptions{Dir: logsDir(cfg, o.PodLogsDir), Queries: *cfg.EnableSystemLogQuery},
		Healthy: k.Healthy,
		Extra: serve.Programs{Addresses: programs,
			Facts: func(ctx context.Context) (any, error) { return factsOf(ctx, o.Node.Name) }}.Routes(),
		Machine: shownMachine(&o.Node.Host, measured(cfg, o, s.runtimeCgroup)),
	}
}

// readOnlyAddress returns where everybody may read; "" if nowhere.
func readOnlyAddress(cfg *v1beta1.KubeletConfiguration) string {
	if cfg.ReadOnlyPort == 0 {
		return ""
	}
	return net.JoinHostPort(cfg.Address, strconv.Itoa(int(cfg.ReadOnlyPort)))
}

// logsDir returns the folder that /logs/ shows, the parent of the pods' logs: /var/log as in upstream, or another one
// if several nodes share a machine. The root of the file system is never shown: then it is /var/log too.
func logsDir(cfg *v1beta1.KubeletConfiguration, podLogs string) string {
	if !*cfg.EnableSystemLogHandler {
		return ""
	}
	dir := filepath.Dir(podLogs)
	if dir == filepath.Dir(dir) {
		return "/var/log"
	}
	return dir
}

// authOptions returns who may use the server. api is nil on a node without a cluster: then tokens cannot be reviewed.
func authOptions(cfg *v1beta1.KubeletConfiguration, api *kube.Kubelet) serve.AuthOptions {
	is := func(b *bool) bool { return b != nil && *b }
	auth := cfg.Authentication
	o := serve.AuthOptions{
		ClientCAFile: auth.X509.ClientCAFile,
		Anonymous:    is(auth.Anonymous.Enabled),
		Tokens:       is(auth.Webhook.Enabled),
		Webhook:      cfg.Authorization.Mode != v1beta1.KubeletAuthorizationModeAlwaysAllow,
		TokenTTL:     auth.Webhook.CacheTTL.Duration,
		AllowedTTL:   cfg.Authorization.Webhook.CacheAuthorizedTTL.Duration,
		DeniedTTL:    cfg.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
	}
	if api != nil {
		o.Reviewer = api.Reviewer()
	}
	return o
}

func healthAddress(cfg *v1beta1.KubeletConfiguration) string {
	if cfg.HealthzPort == nil {
		return ""
	}
	if *cfg.HealthzPort == 0 {
		return "-"
	}
	host := cfg.HealthzBindAddress
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(*cfg.HealthzPort))
}

// count returns the number of pods that have a sandbox, and the number of containers by state.
func count(pods []pod.View) (sandboxes int, containers map[string]int) {
	containers = map[string]int{"running": 0, "exited": 0}
	for _, p := range pods {
		if p.SandboxID != "" {
			sandboxes++
		}
		for _, c := range p.Containers {
			if c.Running {
				containers["running"]++
			} else {
				containers["exited"]++
			}
		}
	}
	return sandboxes, containers
}

// programs are the node's other programs at the addresses that they have unless flags give them others
// (ARCHITECTURE.md).
var programs = map[string]string{"routes": "127.0.0.1:10261", "proxy": "127.0.0.1:10249"}

// factsOf reads what the node's network is, for `porthole path` and the page of porthole web.
func factsOf(ctx context.Context, node string) (path.Node, error) {
	return facts.Read(ctx, facts.Options{Name: node, ConfDirs: facts.DefaultConfDirs(), Routes: programs["routes"],
		OVS: platform.OVSDatabase})
}
