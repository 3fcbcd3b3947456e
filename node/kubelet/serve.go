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
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/serve"
	"porthole.dev/porthole/kubelet/volume"
	"porthole.dev/porthole/node/facts"
	"porthole.dev/porthole/path"
)

// server is the kubelet's HTTPS server with its health port. It has its own connection to the runtime, so that streams
// and statistics never wait behind the work on pods.
type server struct {
	*serve.Server
	conn *grpc.ClientConn
}

// makeServer makes the server. It listens when it runs.
func (p *parts) makeServer(ctx context.Context) error {
	cfg := p.cfg
	o := pages{kubelet: p.kubelet, cfg: p.cfg, given: p.given, client: p.api.client, node: &p.node.Options,
		host: &p.host, meter: p.meter, runtime: p.runtime.Runtime, volumes: p.volumes, cgroups: p.cgroups}
	secure, err := o.tls(ctx)
	if err != nil {
		return err
	}
	if cfg.EnableContentionProfiling && *cfg.EnableProfilingHandler {
		goruntime.SetBlockProfileRate(1) // as upstream: every event
	}
	p.meter.CountRunning(func() (int, map[string]int) { return count(p.pods.View()) })
	p.meter.CountPods(p.pods.Count)
	p.meter.Registry.MustRegister(buildinfo.Metric(Version))
	if err := apiconn.RegisterMetrics(p.meter.Registry); err != nil {
		return err
	}

	conn, err := runtime.Dial(cfg.ContainerRuntimeEndpoint, meter.Calls{Meter: p.meter})
	if err != nil {
		return err
	}
	serving, err := serve.New(o.options(conn, secure))
	if err != nil {
		conn.Close()
		return err
	}
	p.server = &server{serving, conn}
	return nil
}

// run serves until ctx ends.
func (s *server) run(ctx context.Context) {
	if err := s.Server.Run(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "The kubelet API is not served")
	}
}

// pages is where the server gets its answers. client is nil on a node without a cluster, cgroups on Windows.
type pages struct {
	kubelet *core.Kubelet
	cfg     *v1beta1.KubeletConfiguration
	given   *Options
	client  *kube.Kubelet
	node    *nodestatus.Options
	host    *host
	meter   *meter.Meter
	runtime *runtime.Runtime
	volumes *volume.Manager
	cgroups *cgroup.Tree
}

// tls returns what the configuration says of the server's connections.
func (s pages) tls(ctx context.Context) (o serve.TLSOptions, err error) {
	cfg := s.cfg
	o = serve.TLSOptions{CertFile: cfg.TLSCertFile, KeyFile: cfg.TLSPrivateKeyFile, CertDir: s.given.CertDir,
		NodeAddresses: s.node.IPs()}
	if cfg.ServerTLSBootstrap && s.client != nil && cfg.TLSCertFile == "" {
		if o.Certificate, err = s.client.ServingCertificate(ctx, s.given.CertDir, s.kubelet.NodeAddresses); err != nil {
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

// options returns the server's options: its addresses, who may use it, and where it gets its answers.
func (s pages) options(conn *grpc.ClientConn, secure serve.TLSOptions) serve.Options {
	k, cfg := s.kubelet, s.cfg

	return serve.Options{
		Address:       net.JoinHostPort(cfg.Address, strconv.Itoa(int(s.node.Port))),
		HealthAddress: healthAddress(cfg), ReadOnlyAddress: readOnlyAddress(cfg),
		NodeName:      s.host.name,
		TLS:           secure,
		Auth:          authOptions(cfg, s.client),
		NoDebugging:   cfg.EnableDebuggingHandlers != nil && !*cfg.EnableDebuggingHandlers,
		NoProfiling:   cfg.EnableProfilingHandler != nil && !*cfg.EnableProfilingHandler,
		NoFlagChanges: !*cfg.EnableDebugFlagsHandler,
		Pods:          k.View,
		Streams:       runtime.NewStreams(conn),
		Exec:          s.runtime.Exec,
		Checkpoint:    s.runtime.Checkpoint,
		Stats:         runtime.NewStats(conn),
		Metrics:       s.meter.Registry, ProbeMetrics: s.meter.Probes,
		Volumes: volume.Measure{Of: s.volumes},
		RootDir: s.host.root,
		Config:  cfg,
		Flags:   s.given.Flags,
		Version: Version,
		Logs:    serve.LogsOptions{Dir: logsDir(cfg, s.host.logs), Queries: *cfg.EnableSystemLogQuery},
		Healthy: k.Healthy,
		Extra: serve.Programs{Addresses: programs,
			Facts: func(ctx context.Context) (any, error) { return factsOf(ctx, s.host.name) }}.Routes(),
		Machine: shownMachine(&s.host.Host, measured(s.cgroups, cfg, s.given.RuntimeCgroup)),
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

// healthAddress is "" for the default and "-" for none.
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
