// Package kubelet is the command `porthole kubelet`: it has upstream's flags and configuration file.
package kubelet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/volume"
)

// version is the Kubernetes version whose behaviour this kubelet has.
const version = "v1.36.3"

type flags struct {
	kubeconfig, bootstrap, config, configDir, hostname, nodeIP, rootDir, certDir, labels string
	cloudProvider, priorityClass                                                         string
	verbosity                                                                            int32
	service, version                                                                     bool
	settings                                                                             *config.Flags
}

// Flags of upstream's kubelet that have no effect here, by the kind of their value.
var (
	ignoredTexts = []string{"pod-infra-container-image", "runtime-cgroups", "image-credential-provider-config", "image-credential-provider-bin-dir",
		"lock-file", "experimental-mounter-path", "log-flush-frequency", "logging-format", "vmodule", "reserved-memory",
		"maximum-dead-containers", "maximum-dead-containers-per-container", "minimum-container-ttl-duration"}
	ignoredSwitches = []string{"exit-on-lock-contention", "experimental-allocatable-ignore-eviction", "logtostderr"}
)

// Command makes `porthole kubelet`.
func Command() *cobra.Command {
	var f flags
	c := &cobra.Command{Use: "kubelet", Short: "run the pods of this node", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.version { // installers read it so; cobra's own would need a template
				_, err := fmt.Fprintln(c.OutOrStdout(), "Kubernetes "+version)
				return err
			}
			initLogs(f.verbosity)
			if !f.service {
				return run(c.Context(), c, &f)
			}
			return platform.AsService(c.Context(), "kubelet", func(ctx context.Context) error { return run(ctx, c, &f) })
		}}
	fs := c.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "file with the address and the credentials of the API server; without it only static pods run")
	fs.StringVar(&f.bootstrap, "bootstrap-kubeconfig", "", "kubeconfig that may ask for a client certificate; used while --kubeconfig does not exist or has expired")
	fs.StringVar(&f.config, "config", "", "KubeletConfiguration file; flags go before it")
	fs.StringVar(&f.configDir, "config-dir", "", "folder of *.conf files that go before --config, later names before earlier")
	fs.StringVar(&f.hostname, "hostname-override", "", "name of the node, if not the host name")
	fs.StringVar(&f.nodeIP, "node-ip", "", "address of the node, or one of each family with a comma")
	fs.StringVar(&f.rootDir, "root-dir", "/var/lib/kubelet", "folder of volumes and other state")
	fs.StringVar(&f.certDir, "cert-dir", "", "folder of certificates; pki below --root-dir if empty")
	fs.StringVar(&f.labels, "node-labels", "", "labels to register with: key=value,…")
	fs.StringVar(&f.cloudProvider, "cloud-provider", "", "external: the node's addresses come from a cloud controller")
	fs.StringVar(&f.priorityClass, "windows-priorityclass", "NORMAL_PRIORITY_CLASS", "priority class of the process on Windows")
	fs.BoolVar(&f.version, "version", false, "print the version of Kubernetes whose kubelet this one equals")
	fs.BoolVar(&f.service, "windows-service", false, "run under the service manager of Windows, as the service kubelet")
	fs.Int32VarP(&f.verbosity, "v", "v", 0, "log level: 0 changes of state … 6 payloads")
	for _, name := range ignoredTexts {
		fs.String(name, "", "accepted for upstream's sake; has no effect")
	}
	for _, name := range ignoredSwitches {
		fs.Bool(name, false, "accepted for upstream's sake; has no effect")
	}
	f.settings = config.AddFlags(fs)
	return c
}

func run(ctx context.Context, c *cobra.Command, f *flags) error {
	cfg, err := configure(ctx, c, f)
	if err != nil {
		return err
	}
	o, err := options(cfg, f)
	if err != nil {
		return err
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	api, err := connect(ctx, cfg, f, o, lost)
	if err != nil {
		return err
	}
	if err := privileges(ctx, cfg, f); err != nil {
		return err
	}
	o.Meter = meter.New(meter.Options{NodeName: o.Node.Name})
	conn, err := runtime.Dial(cfg.ContainerRuntimeEndpoint, meter.Calls{Meter: o.Meter})
	if err != nil {
		return err
	}
	defer conn.Close()
	rt := runtime.New(conn, runtime.Options{PodLogsDir: o.PodLogsDir, Windows: platform.IsWindows, CPUs: o.Node.Host.CPUs,
		SeccompRoot: filepath.Join(o.RootDir, "seccomp"), SeccompDefault: *cfg.SeccompDefault, MemoryBytes: o.Node.Host.MemoryBytes, CFSQuota: *cfg.CPUCFSQuota, RequestTimeout: cfg.RuntimeRequestTimeout.Duration})
	images := conn
	if cfg.ImageServiceEndpoint != "" && cfg.ImageServiceEndpoint != cfg.ContainerRuntimeEndpoint {
		if images, err = runtime.Dial(cfg.ImageServiceEndpoint, meter.Calls{Meter: o.Meter}); err != nil {
			return err
		}
		defer images.Close()
	}
	pulls := puller(cfg, images)
	pulls.NodeConfigs = image.NodeConfigFolders(o.RootDir)
	o.Runtime, o.Images = core.NewRuntime(rt), pulls
	o.ImageGC = &image.GC{Images: pulls.Client(), Runtime: rt.Client(), Disk: diskOf, Policy: image.GCPolicy{
		High: int(*cfg.ImageGCHighThresholdPercent), Low: int(*cfg.ImageGCLowThresholdPercent),
		MinAge: cfg.ImageMinimumGCAge.Duration, MaxAge: cfg.ImageMaximumGCAge.Duration}}
	volumes := volume.Options{RootDir: o.RootDir, NodeName: o.Node.Name,
		Failed: func(p *v1.Pod, err error) {
			o.API.PodEvent(p, "", v1.EventTypeWarning, "FailedMount", err.Error())
		}}
	if api != nil {
		defer api.Close()
		volumes.Objects, volumes.Tokens = api.Objects, api
	}
	manager := volume.New(volumes)
	defer manager.Close()
	o.Volumes = core.NewVolumes(manager)
	k := core.New(*o)
	if *cfg.EnableServer {
		stop, err := serveHTTP(ctx, servedBy{k: k, cfg: cfg, api: api, o: o, runtime: rt, volumes: manager, certDir: f.certDir, flags: flagValues(c.Flags())})
		if err != nil {
			return err
		}
		defer stop()
	}
	err = k.Run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return nil
		}
		return cause
	}
	return err
}

// puller pulls images through a connection, as many at once and as often as the configuration lets it.
func puller(cfg *v1beta1.KubeletConfiguration, conn *grpc.ClientConn) *image.Puller {
	parallel := 0
	if cfg.SerializeImagePulls != nil && *cfg.SerializeImagePulls {
		parallel = 1
	}
	if cfg.MaxParallelImagePulls != nil {
		parallel = int(*cfg.MaxParallelImagePulls)
	}
	p := image.New(conn, parallel)
	if qps := *cfg.RegistryPullQPS; qps > 0 {
		p.Rate = rate.NewLimiter(rate.Limit(qps), int(cfg.RegistryBurst))
	}
	return p
}

// flagValues are all flags with the values that they have.
func flagValues(fs *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) { out[f.Name] = f.Value.String() })
	return out
}

// diskOf is the size of the file system of a path and what is free of it, in bytes.
func diskOf(path string) (capacity, available uint64, err error) {
	d, err := platform.ReadDisk(path)
	return d.DiskTotal, d.DiskAvailable, err
}

// configure reads the configuration and says what of it has no effect.
func configure(ctx context.Context, c *cobra.Command, f *flags) (*v1beta1.KubeletConfiguration, error) {
	log := klog.FromContext(ctx)
	cfg, warnings, err := config.Load(config.Source{File: f.config, Dir: f.configDir, Windows: platform.IsWindows, Flags: f.settings})
	for _, w := range warnings {
		log.Info("Configuration has a field that is not known or not supported", "file", f.config, "field", w)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(ignoredTexts, ignoredSwitches) {
		if c.Flags().Changed(name) {
			log.Info("Flag has no effect", "flag", "--"+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.FeatureGates)) {
		log.Info("Feature gate has no effect: features are on or absent", "gate", name, "value", cfg.FeatureGates[name])
	}
	if f.certDir == "" {
		f.certDir = filepath.Join(f.rootDir, "pki")
	}
	dir, err := filepath.Abs(f.certDir)
	if err != nil {
		return nil, fmt.Errorf("finding --cert-dir %s: %w", f.certDir, err)
	}
	f.certDir = dir
	return cfg, platform.CheckNode(platform.NodeRules{NoSwap: *cfg.FailSwapOn, NoCgroupV1: *cfg.FailCgroupV1})
}

// privileges makes sure of what the process must be able to do, and asks for what it should.
func privileges(ctx context.Context, cfg *v1beta1.KubeletConfiguration, f *flags) error {
	if err := errors.Join(platform.CheckPrivileges(), platform.SetPriority(f.priorityClass)); err != nil {
		return err
	}
	if err := platform.Claim(platform.Resources{OOMScore: int(*cfg.OOMScoreAdj), OpenFiles: uint64(cfg.MaxOpenFiles)}); err != nil {
		klog.FromContext(ctx).Info("The system does not give what the kubelet asks for", "cause", err.Error())
	}
	return nil
}

// connect makes the client of the API server; nil when the node is on its own.
func connect(ctx context.Context, cfg *v1beta1.KubeletConfiguration, f *flags, o *core.Options, lost func(error)) (*kube.Kubelet, error) {
	if f.kubeconfig == "" {
		if f.bootstrap != "" {
			return nil, errors.New("--bootstrap-kubeconfig needs --kubeconfig, which is where the outcome goes")
		}
		klog.FromContext(ctx).Info("Standalone: without --kubeconfig only static pods run")
		o.API, o.Standalone = core.NewAPI(kube.Offline{}), true
		return nil, nil
	}
	rest, err := kube.Credentials{Node: o.Node.Name, Kubeconfig: f.kubeconfig, Bootstrap: f.bootstrap, CertDir: f.certDir, Rotate: cfg.RotateCertificates,
		UserAgent: "kubelet/" + version, QPS: float32(*cfg.KubeAPIQPS), Burst: int(cfg.KubeAPIBurst), Lost: lost}.Connect(ctx)
	if err != nil {
		return nil, err
	}
	api, err := kube.NewKubelet(rest, o.Node.Name)
	if err != nil {
		return nil, err
	}
	o.API = core.NewAPI(api)
	return api, nil
}

// staticSources are the folder and the address that the configuration names.
func staticSources(cfg *v1beta1.KubeletConfiguration, node string) []core.StaticSource {
	var out []core.StaticSource
	if cfg.StaticPodPath != "" {
		out = append(out, &static.Files{Path: filepath.Clean(cfg.StaticPodPath), Node: node, Period: cfg.FileCheckFrequency.Duration})
	}
	if cfg.StaticPodURL != "" {
		out = append(out, &static.URL{Address: cfg.StaticPodURL, Header: cfg.StaticPodURLHeader, Node: node, Period: cfg.HTTPCheckFrequency.Duration})
	}
	return out
}

func initLogs(v int32) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	_ = fs.Set("v", strconv.Itoa(int(v)))
}
