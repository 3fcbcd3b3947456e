// Package kubelet is the command `porthole kubelet`: it has upstream's flags and configuration file.
package kubelet

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// version is the Kubernetes version whose behaviour this kubelet has.
const version = "v1.36.3"

type flags struct {
	kubeconfig, config, hostname, nodeIP, rootDir, certDir, endpoint, labels, manifests string
	taints                                                                              []string
	clusterDNS                                                                          []string
	clusterDomain, cgroupRoot, resolvConf                                               string
	maxPods, verbosity                                                                  int32
	register                                                                            bool
}

// Command makes `porthole kubelet`.
func Command() *cobra.Command {
	var f flags
	c := &cobra.Command{Use: "kubelet", Short: "run the pods of this node", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), c, &f) }}
	fs := c.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "file with the address and the credentials of the API server")
	fs.StringVar(&f.config, "config", "", "KubeletConfiguration file; flags go before it")
	fs.StringVar(&f.hostname, "hostname-override", "", "name of the node, if not the host name")
	fs.StringVar(&f.nodeIP, "node-ip", "", "address of the node, or one of each family with a comma")
	fs.StringVar(&f.rootDir, "root-dir", "/var/lib/kubelet", "folder of volumes and other state")
	fs.StringVar(&f.certDir, "cert-dir", "", "folder of certificates; pki below --root-dir if empty")
	fs.StringVar(&f.endpoint, "container-runtime-endpoint", "", "unix:///path, tcp://host:port or npipe:////./pipe/name")
	fs.StringVar(&f.labels, "node-labels", "", "labels to register with: key=value,…")
	fs.StringSliceVar(&f.taints, "register-with-taints", nil, "taints to register with: key=value:effect,…")
	fs.StringVar(&f.manifests, "pod-manifest-path", "", "folder of static pods (not yet supported)")
	fs.StringSliceVar(&f.clusterDNS, "cluster-dns", nil, "addresses of the cluster's DNS")
	fs.StringVar(&f.clusterDomain, "cluster-domain", "", "domain of the cluster")
	fs.StringVar(&f.cgroupRoot, "cgroup-root", "", "cgroup below which pods live")
	fs.StringVar(&f.resolvConf, "resolv-conf", "", "resolver file that pods with dnsPolicy Default get")
	fs.Int32Var(&f.maxPods, "max-pods", 0, "how many pods the node runs")
	fs.BoolVar(&f.register, "register-node", true, "create the node object")
	fs.Int32Var(&f.verbosity, "v", 0, "log level: 0 changes of state … 6 payloads")
	for _, name := range []string{"pod-infra-container-image", "image-service-endpoint", "cgroup-driver", "feature-gates", "cloud-provider",
		"provider-id", "windows-priorityclass"} {
		fs.String(name, "", "accepted for upstream's sake; has no effect")
	}
	for _, name := range []string{"fail-swap-on", "rotate-certificates", "rotate-server-certificates", "windows-service"} {
		fs.Bool(name, false, "accepted for upstream's sake; has no effect")
	}
	return c
}

func run(ctx context.Context, c *cobra.Command, f *flags) error {
	initLogs(f.verbosity)
	log := klog.FromContext(ctx)
	cfg, warnings, err := config.Load(f.config, platform.IsWindows)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Info("Configuration has a field that is not known", "file", f.config, "field", w)
	}
	if f.manifests != "" || cfg.StaticPodPath != "" {
		log.Info("Static pods are not supported yet; their folder is not read", "file", f.manifests+cfg.StaticPodPath)
	}
	override(cfg, f)
	o, err := options(cfg, f)
	if err != nil {
		return err
	}
	if f.kubeconfig == "" {
		return fmt.Errorf("--kubeconfig is missing: without an API server there is nothing to run")
	}
	_, rest, err := kube.Load(f.kubeconfig, "kubelet/"+version, float32(*cfg.KubeAPIQPS), int(cfg.KubeAPIBurst))
	if err != nil {
		return err
	}
	api, err := kube.NewKubelet(rest, o.NodeName)
	if err != nil {
		return err
	}
	defer api.Close()
	o.API = api
	conn, err := runtime.Dial(cfg.ContainerRuntimeEndpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	o.Runtime = runtime.New(conn, runtime.Options{PodLogsDir: o.PodLogsDir, Windows: platform.IsWindows, CPUs: o.Host.CPUs,
		MemoryBytes: o.Host.MemoryBytes, CFSQuota: *cfg.CPUCFSQuota, RequestTimeout: cfg.RuntimeRequestTimeout.Duration})
	parallel := 0
	if cfg.SerializeImagePulls != nil && *cfg.SerializeImagePulls {
		parallel = 1
	}
	if cfg.MaxParallelImagePulls != nil {
		parallel = int(*cfg.MaxParallelImagePulls)
	}
	o.Images = image.New(conn, parallel)
	o.Volumes = volume.New(volume.Options{RootDir: o.RootDir, NodeName: o.NodeName, Objects: api.Objects, Tokens: api,
		Failed: func(p *v1.Pod, err error) {
			api.PodEvent(p, "", v1.EventTypeWarning, "FailedMount", err.Error())
		}})
	defer o.Volumes.Close()
	k := core.New(*o)
	stop, err := serveHTTP(ctx, k, cfg, api, o)
	if err != nil {
		return err
	}
	defer stop()
	err = k.Run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func initLogs(v int32) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	_ = fs.Set("v", strconv.Itoa(int(v)))
}

func override(cfg *v1beta1.KubeletConfiguration, f *flags) {
	if f.endpoint != "" {
		cfg.ContainerRuntimeEndpoint = f.endpoint
	}
	if len(f.clusterDNS) > 0 {
		cfg.ClusterDNS = f.clusterDNS
	}
	if f.clusterDomain != "" {
		cfg.ClusterDomain = f.clusterDomain
	}
	if f.cgroupRoot != "" {
		cfg.CgroupRoot = f.cgroupRoot
	}
	if f.resolvConf != "" {
		cfg.ResolverConfig = &f.resolvConf
	}
	if f.maxPods > 0 {
		cfg.MaxPods = f.maxPods
	}
}

func options(cfg *v1beta1.KubeletConfiguration, f *flags) (*core.Options, error) {
	root, err := filepath.Abs(f.rootDir)
	if err != nil {
		return nil, fmt.Errorf("finding --root-dir %s: %w", f.rootDir, err)
	}
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("creating --root-dir: %w", err)
	}
	logs, err := filepath.Abs(cfg.PodLogsDir)
	if err != nil {
		return nil, fmt.Errorf("finding podLogsDir %s: %w", cfg.PodLogsDir, err)
	}
	host, err := platform.ReadHost(root)
	if err != nil {
		return nil, err
	}
	o := &core.Options{NodeName: strings.ToLower(host.Hostname), RootDir: root, PodLogsDir: logs, CgroupRoot: cfg.CgroupRoot,
		Port: cfg.Port, MaxPods: int64(cfg.MaxPods), Host: host, Version: version, LeaseSeconds: cfg.NodeLeaseDurationSeconds,
		StatusPeriod: cfg.NodeStatusUpdateFrequency.Duration, ReportPeriod: cfg.NodeStatusReportFrequency.Duration, Windows: platform.IsWindows}
	if f.hostname != "" {
		o.NodeName = strings.ToLower(f.hostname)
	}
	if cfg.CrashLoopBackOff.MaxContainerRestartPeriod != nil {
		o.MaxBackoff = cfg.CrashLoopBackOff.MaxContainerRestartPeriod.Duration
	}
	if o.NodeIPs, err = nodeIPs(f.nodeIP); err != nil {
		return nil, err
	}
	if o.Labels, err = parseLabels(f.labels); err != nil {
		return nil, err
	}
	if o.Taints, err = parseTaints(f.taints); err != nil {
		return nil, err
	}
	o.Taints = append(o.Taints, cfg.RegisterWithTaints...)
	if o.Reserved, err = reserved(cfg, host); err != nil {
		return nil, err
	}
	o.DNS = dns.Cluster{Servers: cfg.ClusterDNS, Domain: cfg.ClusterDomain}
	if path := *cfg.ResolverConfig; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading resolvConf: %w", err)
		}
		o.DNS.Host = dns.Parse(string(text))
	}
	return o, nil
}

// nodeIPs reads --node-ip, or finds the address that the default route goes out by.
func nodeIPs(text string) ([]string, error) {
	if text == "" {
		conn, err := net.Dial("udp4", "192.0.2.1:9") // sends nothing: it only asks for a route
		if err != nil {
			return nil, fmt.Errorf("finding the node's address (say it with --node-ip): %w", err)
		}
		defer conn.Close()
		return []string{conn.LocalAddr().(*net.UDPAddr).IP.String()}, nil
	}
	var out []string
	for _, s := range strings.Split(text, ",") {
		ip := net.ParseIP(strings.TrimSpace(s))
		if ip == nil {
			return nil, fmt.Errorf("--node-ip %q is not an address", s)
		}
		out = append(out, ip.String())
	}
	return out, nil
}

func parseLabels(text string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range strings.Split(text, ",") {
		if s == "" {
			continue
		}
		k, v, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--node-labels: %q is not key=value", s)
		}
		out[k] = v
	}
	return out, nil
}

func parseTaints(list []string) ([]v1.Taint, error) {
	var out []v1.Taint
	for _, s := range list {
		kv, effect, ok := strings.Cut(s, ":")
		known := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
		if !ok || !slices.Contains(known, v1.TaintEffect(effect)) {
			return nil, fmt.Errorf("--register-with-taints: %q is not key=value:effect", s)
		}
		k, v, _ := strings.Cut(kv, "=")
		out = append(out, v1.Taint{Key: k, Value: v, Effect: v1.TaintEffect(effect)})
	}
	return out, nil
}

// reserved adds up what is kept from pods: for the system, for the node's own programs, and the eviction thresholds.
func reserved(cfg *v1beta1.KubeletConfiguration, host platform.Host) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	add := func(name v1.ResourceName, q resource.Quantity) {
		sum := out[name]
		sum.Add(q)
		out[name] = sum
	}
	for _, m := range []map[string]string{cfg.SystemReserved, cfg.KubeReserved} {
		for name, text := range m {
			q, err := resource.ParseQuantity(text)
			if err != nil {
				return nil, fmt.Errorf("reserved %s of %q: %w", name, text, err)
			}
			add(v1.ResourceName(name), q)
		}
	}
	for signal, text := range cfg.EvictionHard {
		name, size := v1.ResourceMemory, host.MemoryBytes
		switch signal {
		case "memory.available":
		case "nodefs.available":
			name, size = v1.ResourceEphemeralStorage, host.DiskBytes
		default:
			continue
		}
		if percent, ok := strings.CutSuffix(text, "%"); ok {
			p, err := strconv.ParseFloat(percent, 64)
			if err != nil {
				return nil, fmt.Errorf("evictionHard %s of %q: %w", signal, text, err)
			}
			add(name, *resource.NewQuantity(int64(float64(size)*p/100), resource.BinarySI))
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("evictionHard %s of %q: %w", signal, text, err)
		}
		add(name, q)
	}
	return out, nil
}
