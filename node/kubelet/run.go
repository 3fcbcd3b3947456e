// Package kubelet wires a node's kubelet: it connects the core to the API server, to the container runtime and to the
// host.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/internal/platform"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/credential"
	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/podresources"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/volume"
)

// Version is the Kubernetes version whose behaviour this kubelet has.
const Version = "v1.36.3"

// Options are what a command line decides.
type Options struct {
	Kubeconfig string // file with the API server's address and credentials; without it only static pods run
	// kubeconfig that may ask for a client certificate; used while Kubeconfig does not exist or has expired
	Bootstrap string
	Config    string // KubeletConfiguration file; may be empty
	ConfigDir string // folder of *.conf files that override fields of Config; may be empty

	Hostname string // name of the node; empty: the name of the host
	NodeIP   string // address of the node, or one of each family separated by a comma; empty: found
	RootDir  string // folder of volumes and other state
	// DeviceDir is the folder of the sockets of device plugins; empty: the one where they expect it.
	DeviceDir string
	// RecordFacts is the folder for the facts about each pod; empty records none.
	RecordFacts string
	CertDir     string // folder of certificates; empty: pki below RootDir
	// RegistryConfig is the folder of hosts.toml files that the runtime has as its config_path; empty if it has none.
	RegistryConfig string
	// CredentialConfig is a CredentialProviderConfig, or a folder of them, and CredentialDir the folder of its
	// programs; both or none.
	CredentialConfig, CredentialDir string
	Labels                          string // labels to register the node with: key=value, separated by commas

	// RuntimeCgroup is the cgroup of the container runtime, whose use is shown in the statistics. If it is empty, it
	// is that of the process which listens at the runtime's endpoint.
	RuntimeCgroup string
	// BootRecord is the file in which `porthole routes` says that the pod network of this boot is made; pods wait for
	// it. Empty: they do not.
	BootRecord string

	KeepKernel bool // leave the kernel's settings as they are
	// LockFile is a file whose lock the kubelet waits for and keeps; empty: none. With LeaveOnContention it ends once
	// another process opens the file.
	LockFile          string
	LeaveOnContention bool

	CloudProvider string // empty or external
	PriorityClass string // priority class of the process on Windows

	Settings      *config.Flags     // flags that override fields of the configuration
	Flags         map[string]string // every flag with its value, by name, for the page that shows them
	WithoutEffect []string          // flags that were given and have no effect: they are logged
}

// Run runs the kubelet until ctx ends or the node loses its credentials.
func Run(ctx context.Context, given Options) error {
	if err := platform.CheckBuild(); err != nil {
		return err
	}
	cfg, err := configure(ctx, &given)
	if err != nil {
		return err
	}

	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if err := takeLock(ctx, &given, leave); err != nil {
		return err
	}
	return run(ctx, cfg, &given)
}

// run runs the kubelet with a configuration that was read.
func run(ctx context.Context, cfg *v1beta1.KubeletConfiguration, given *Options) error {
	o, addresses, err := options(ctx, cfg, given)
	if err != nil {
		return err
	}
	gate, err := bootrecord.NewGate(given.BootRecord, o.Node.Host.BootID)
	if err != nil {
		return err
	}
	o.Node.NetworkAwaited = gate.Why

	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	api, err := connect(ctx, cfg, given, o, lost)
	if err != nil {
		return err
	}
	if err := privileges(ctx, cfg, given); err != nil {
		return err
	}

	go placePrograms(ctx, cfg)
	shareMounts(ctx, o.RootDir) // from here on: a start that is refused before leaves no mount
	rt, closeCRI, err := connectRuntime(ctx, cfg, given, o, api)
	if err != nil {
		return err
	}
	defer closeCRI()
	if api != nil {
		defer api.Close()
	}

	plugins, err := newPlugins(ctx, cfg, o, api)
	if err != nil {
		return err
	}
	server := servedBy{cfg: cfg, api: api, runtimeCgroup: given.RuntimeCgroup, o: o, runtime: rt,
		certDir: given.CertDir, flags: given.Flags}
	if server.volumes, err = keepVolumes(&server, plugins, func() { server.k.ReportNode() }); err != nil {
		return err
	}
	defer server.volumes.Close()
	if err := recordFacts(o, given.RecordFacts); err != nil {
		return err
	}

	giveDevices(ctx, o)
	server.k = core.New(o.Options)
	go plugins.run(ctx, server.k.ReportNode)
	go addresses.keep(ctx, server.k.ReportNode)
	go awaitNetwork(ctx, gate, server.k.ReportNode)
	if *cfg.MakeIPTablesUtilChains {
		go keepChains(ctx)
	}
	return server.run(ctx)
}

// giveDevices makes what serves device plugins, and what gives pods devices, processors, memory and claims.
func giveDevices(ctx context.Context, o *assembly) {
	changed := func(pods []types.UID) { o.Node.Changed.Wake(); o.Pods.Wake(pods) }
	d := device.Options{Dir: o.deviceDir, Alive: o.Pods.Alive, Changed: changed, Meter: o.Meter}
	if m := o.allot.Topology.Machine; m != nil {
		d.Nodes = m.NodeIDs()
	}
	var err error
	if o.allot.Devices, err = device.New(d); err != nil { // as upstream's kubelet: pods that run have what they need
		klog.FromContext(ctx).Error(err, "What an earlier kubelet wrote down about devices cannot be read")
	}
	o.allot.Meter = o.Meter
	o.Allot = allot.New(o.allot)
}

// takeLock waits for the lock file, if one is given.
func takeLock(ctx context.Context, given *Options, leave func()) error {
	switch {
	case given.LockFile == "" && given.LeaveOnContention:
		return errors.New("cannot exit on lock file contention: no lock file specified") // upstream's words
	case given.LockFile == "":
		return nil
	case !given.LeaveOnContention:
		leave = nil
	}
	return lockFile(ctx, given.LockFile, leave)
}

// shareMounts passes mounts below the kubelet's folder on. Without it pods with mount propagation have to wait.
func shareMounts(ctx context.Context, root string) {
	if err := platform.ShareMounts(root); err != nil {
		klog.FromContext(ctx).Error(err, "Mounts below the kubelet's folder are not passed on")
	}
}

// recordFacts has the kubelet write down in a file what it learns; "" for nothing.
func recordFacts(o *assembly, file string) (err error) {
	if file != "" {
		o.Facts, err = factlog.Open(file, factlog.DefaultLimits)
	}
	return err
}

// run serves the kubelet's interfaces and runs it until ctx ends.
func (s servedBy) run(ctx context.Context) error {
	if *s.cfg.EnableServer {
		stop, err := serveHTTP(ctx, s)
		if err != nil {
			return err
		}
		defer stop()
	}

	go servePodResources(ctx, s.o.RootDir, s.o.Allot.Resources())
	defer prepareShutdown(ctx, s.cfg, s.k)()
	return ending(ctx, s.k.Run(ctx))
}

// servePodResources tells programs of the node what pods have of it. A kubelet that cannot goes on without.
func servePodResources(ctx context.Context, root string, of allot.Resources) {
	if err := podresources.Serve(ctx, filepath.Join(root, "pod-resources"), of); err != nil {
		klog.FromContext(ctx).Error(err, "What pods have of the node cannot be asked for")
	}
}

// sandboxProfile writes the seccomp profile of sandboxes and returns its path; "" if it cannot: they have the
// runtime's then.
func sandboxProfile(ctx context.Context, root string) string {
	path, err := runtime.WriteSandboxProfile(filepath.Join(root, "seccomp"))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Sandboxes have the runtime's own seccomp profile")
	}
	return path
}

// awaitNetwork lets pods start when the pod network of this boot is made.
func awaitNetwork(ctx context.Context, gate *bootrecord.Gate, made func()) {
	if why := gate.Why(); why != "" {
		klog.FromContext(ctx).Info("Pods wait", "cause", why)
	}
	if err := gate.Run(ctx, made); err != nil {
		klog.FromContext(ctx).Error(err, "Recording whether pods may start failed")
	}
}

// connectRuntime dials the runtime, and gives o all that speaks to it. The caller calls closeCRI at the end. api may
// be nil.
func connectRuntime(ctx context.Context, cfg *v1beta1.KubeletConfiguration, given *Options, o *assembly,
	api *kube.Kubelet) (rt *runtime.Runtime, closeCRI func(), err error) {
	usage, _ := platform.ReadUsage(o.RootDir) // what cannot be read is zero
	o.Meter = meter.New(meter.Options{NodeName: o.Node.Name, Boot: usage.Boot})
	warnOfTCP(ctx, cfg.ContainerRuntimeEndpoint)
	conn, images, closeCRI, err := dialCRI(cfg, meter.Calls{Meter: o.Meter})
	if err != nil {
		return nil, nil, err
	}
	rt = runtime.New(conn, runtime.Options{PodLogsDir: o.PodLogsDir, RootDir: o.RootDir, Windows: platform.IsWindows,
		CPUs:        o.Node.Host.CPUs,
		SeccompRoot: filepath.Join(o.RootDir, "seccomp"), SeccompDefault: *cfg.SeccompDefault,
		SandboxProfile: sandboxProfile(ctx, o.RootDir),
		MemoryBytes:    o.Node.Host.MemoryBytes, CFSQuota: *cfg.CPUCFSQuota, CFSPeriod: cfg.CPUCFSQuotaPeriod.Duration,
		RequestTimeout: cfg.RuntimeRequestTimeout.Duration,
		Cgroups: runtime.Cgroups{Version: cgroup.Version(),
			SingleProcessOOMKill: cfg.SingleProcessOOMKill != nil && *cfg.SingleProcessOOMKill,
			LimitsSwap:           cgroup.LimitsSwap(), SwapBehavior: cfg.MemorySwap.SwapBehavior,
			SwapBytes: o.Node.Host.SwapBytes}})

	if tree, ok := o.Cgroups.(cgroup.Tree); ok {
		ask := func(ctx context.Context) (string, error) { return runtime.CgroupDriver(ctx, rt) }
		o.Cgroups = tree.Decided(func(ctx context.Context) (string, error) {
			return decideDriver(ctx, cfg.CgroupDriver, ask)
		})
	}
	o.allot.Pin = func(ctx context.Context, container, cpus string) error {
		return runtime.Pin(ctx, rt, container, cpus)
	}

	pulls := puller(cfg, images)
	pulls.Count = o.Meter.Images()
	pulls.NodeConfigs = image.NodeConfigFolders(o.RootDir)
	pulls.Builds = imageBuilds(given, o, api, rt)
	if err := useProviders(pulls, given, api); err != nil {
		closeCRI()
		return nil, nil, err
	}
	o.Runtime, o.Images = core.NewRuntime(rt), pulls
	pulls.Verify, err = image.NewVerifier(filepath.Join(o.RootDir, "image_manager"),
		cfg.ImagePullCredentialsVerificationPolicy, cfg.PreloadedImagesVerificationAllowlist)
	if err != nil {
		closeCRI()
		return nil, nil, err
	}
	pulls.Verify.Checked = o.Meter.Images().Checked
	o.Meter.CountPulls(pulls.Verify.Kept)
	o.ImageGC = &image.GC{Event: o.API.NodeEvent, Removed: o.Meter.Images().Removed, Verify: pulls.Verify,
		Images:  pulls.Client(),
		Runtime: rt.Client(), Disk: diskOf, Policy: gcPolicy(cfg)}
	return rt, closeCRI, nil
}

// useProviders has the programs of the configuration asked for logins.
func useProviders(pulls *image.Puller, given *Options, api *kube.Kubelet) error {
	if given.CredentialConfig == "" && given.CredentialDir == "" {
		return nil
	}
	if given.CredentialConfig == "" || given.CredentialDir == "" {
		return errors.New(
			"--image-credential-provider-config and --image-credential-provider-bin-dir must be set together")
	}
	p, err := credential.Load(given.CredentialConfig, given.CredentialDir)
	if err != nil {
		return err
	}
	p.Matches, p.RegistryOf = image.Matches, image.RegistryOf
	if api != nil { // else the interface would not be nil
		p.Accounts = api
	}
	pulls.Providers = p
	return nil
}

// keepVolumes returns the manager of the pods' volumes, which the caller closes, and gives it to the kubelet's
// options, with the reader of what the node has left of its disk and memory.
func keepVolumes(s *servedBy, p *plugins, nodeChanged func()) (*volume.Manager, error) {
	manager := volume.New(volumeOptions(s.cfg, s.o, s.api, p, nodeChanged))
	s.o.Volumes = core.NewVolumes(manager)
	s.o.Meter.CountVolumes(func() meter.Count { return volume.Count(manager) },
		func() meter.Count { return volume.Certificates(manager) })
	var err error
	if s.o.Pressure.Reader, err = newLeftReader(s.cfg, s.o, s.runtime, manager); err != nil {
		manager.Close()
		return nil, err
	}
	return manager, nil
}

// volumeOptions returns what volumes need. Without api (a kubelet without a cluster) they have neither objects nor
// tokens. nodeChanged is called when the volumes change that the node uses.
func volumeOptions(cfg *v1beta1.KubeletConfiguration, o *assembly, api *kube.Kubelet, p *plugins,
	nodeChanged func()) volume.Options {
	options := volume.Options{RootDir: o.RootDir, NodeName: o.Node.Name, BootID: o.Node.Host.BootID,
		NodeChanged: nodeChanged, Measure: o.Meter.VolumeOperation,
		Event: func(p *v1.Pod, kind, reason, message string) { o.API.PodEvent(p, "", kind, reason, message) },
		Failed: func(p *v1.Pod, err error) {
			o.API.PodEvent(p, "", v1.EventTypeWarning, "FailedMount", err.Error())
		}}
	if api != nil {
		options.Objects, options.Tokens, options.Claims, options.Drivers = api.Objects, api, api, p.drivers
		if config.On(cfg.FeatureGates, "ClusterTrustBundleProjection") {
			options.TrustBundles = api.Objects
		}
		if config.On(cfg.FeatureGates, "PodCertificateRequest") {
			options.Certificates = api
		}
	}
	return options
}

// dialCRI connects to the runtime and to the image service, which is the runtime unless the configuration names
// another one.
func dialCRI(cfg *v1beta1.KubeletConfiguration, calls meter.Calls) (rt, images *grpc.ClientConn, closeAll func(),
	err error) {
	rt, err = runtime.Dial(cfg.ContainerRuntimeEndpoint, calls)
	if err != nil {
		return nil, nil, nil, err
	}
	if cfg.ImageServiceEndpoint == "" || cfg.ImageServiceEndpoint == cfg.ContainerRuntimeEndpoint {
		return rt, rt, func() { rt.Close() }, nil
	}

	images, err = runtime.Dial(cfg.ImageServiceEndpoint, calls)
	if err != nil {
		rt.Close()
		return nil, nil, nil, err
	}
	return rt, images, func() { images.Close(); rt.Close() }, nil
}

// ending returns what Run returns after err of the kubelet: nil if Run was told to stop, the cause of ctx if the node
// lost its credentials, else err.
func ending(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	if cause != nil {
		return cause
	}
	return err
}

// warnOfTCP logs that a Windows node's runtime is reached over TCP, which every program of the node can use.
func warnOfTCP(ctx context.Context, endpoint string) {
	if platform.IsWindows && strings.HasPrefix(endpoint, "tcp:") {
		klog.FromContext(ctx).
			Info(
				"The runtime is reached over TCP, which every program of the node can use; containerd listens on a named pipe",
				"endpoint", endpoint, "default", "npipe:////./pipe/containerd-containerd")
	}
}

// gcPolicy returns when unused images are removed.
func gcPolicy(cfg *v1beta1.KubeletConfiguration) image.GCPolicy {
	return image.GCPolicy{High: int(*cfg.ImageGCHighThresholdPercent), Low: int(*cfg.ImageGCLowThresholdPercent),
		MinAge: cfg.ImageMinimumGCAge.Duration, MaxAge: cfg.ImageMaximumGCAge.Duration}
}

// puller pulls images through a connection, within the limits on parallel pulls and on pulls per second in the
// configuration.
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
		p.Rate = kube.NewLimiter(float32(qps), int(cfg.RegistryBurst))
	}
	return p
}

// diskOf returns the size and the free space of the file system that holds path, in bytes.
func diskOf(path string) (capacity, available uint64, err error) {
	d, err := platform.ReadDisk(path)
	return d.DiskTotal, d.DiskAvailable, err
}

// configure reads the configuration, and logs the fields and flags that have no effect.
func configure(ctx context.Context, given *Options) (*v1beta1.KubeletConfiguration, error) {
	log := klog.FromContext(ctx)
	cfg, warnings, err := config.Load(config.Source{File: given.Config, Dir: given.ConfigDir,
		Windows: platform.IsWindows, Flags: given.Settings})
	for _, w := range warnings {
		log.Info("Configuration has a field that is not known or not supported", "file", given.Config, "field", w)
	}
	if err != nil {
		return nil, err
	}

	if v := int(cfg.Logging.Verbosity); v > 0 && given.Flags["v"] == "0" { // the flag counts if it is given
		if err := logging.Set(v, ""); err != nil {
			return nil, fmt.Errorf("logging.verbosity: %w", err)
		}
	}
	for _, name := range given.WithoutEffect {
		log.Info("Flag has no effect", "flag", "--"+name)
	}
	if given.CertDir == "" {
		given.CertDir = filepath.Join(given.RootDir, "pki")
	}

	dir, err := filepath.Abs(given.CertDir)
	if err != nil {
		return nil, fmt.Errorf("finding --cert-dir %s: %w", given.CertDir, err)
	}

	given.CertDir = dir
	if given.Flags != nil {
		given.Flags["cert-dir"] = dir // the page shows the folder that is used
	}
	return cfg, platform.CheckNode(platform.NodeRules{NoSwap: *cfg.FailSwapOn, NoCgroupV1: *cfg.FailCgroupV1,
		LimitedSwap: cfg.MemorySwap.SwapBehavior == "LimitedSwap",
		EndAllOnOOM: cfg.SingleProcessOOMKill != nil && !*cfg.SingleProcessOOMKill})
}

// privileges returns an error if the process lacks a privilege that it needs. It also asks for a priority and for
// resources; not to get those resources is only logged.
func privileges(ctx context.Context, cfg *v1beta1.KubeletConfiguration, given *Options) error {
	if err := errors.Join(platform.CheckPrivileges(), platform.SetPriority(given.PriorityClass)); err != nil {
		return err
	}
	if err := platform.Claim(platform.Resources{OOMScore: int(*cfg.OOMScoreAdj),
		OpenFiles: uint64(cfg.MaxOpenFiles)}); err != nil {
		klog.FromContext(ctx).Info("The system does not give what the kubelet asks for", "cause", err.Error())
	}

	if cfg.ProtectKernelDefaults {
		if err := platform.CheckKernel(); err != nil {
			return fmt.Errorf(
				"%w (protectKernelDefaults is true: set them with sysctl, or set it to false, and the kubelet sets them)", err)
		}
		return nil
	}
	if !given.KeepKernel {
		if err := platform.SetKernel(); err != nil {
			klog.FromContext(ctx).Error(err, "The kernel does not take a setting")
		}
	}
	return nil
}

// connect makes the client of the API server. It returns nil for a node without a cluster.
func connect(ctx context.Context, cfg *v1beta1.KubeletConfiguration, given *Options, o *assembly,
	lost func(error)) (*kube.Kubelet, error) {
	if given.Kubeconfig == "" {
		if given.Bootstrap != "" {
			return nil, errors.New("--bootstrap-kubeconfig needs --kubeconfig, which is where the outcome goes")
		}
		klog.FromContext(ctx).Info("Standalone: without --kubeconfig only static pods run")
		o.API, o.Standalone = core.NewAPI(kube.Offline{}), true
		return nil, nil
	}

	rest, err := kube.Credentials{Node: o.Node.Name, Kubeconfig: given.Kubeconfig, Bootstrap: given.Bootstrap,
		CertDir: given.CertDir, Rotate: cfg.RotateCertificates,
		UserAgent: "kubelet/" + Version, QPS: float32(*cfg.KubeAPIQPS), Burst: int(cfg.KubeAPIBurst),
		Lost: lost}.Connect(ctx)
	if err != nil {
		return nil, err
	}

	api, err := kube.NewKubelet(rest, o.Node.Name, kube.Rate{QPS: *cfg.EventRecordQPS, Burst: cfg.EventBurst})
	if err != nil {
		return nil, err
	}

	o.API = core.NewAPI(api)
	return api, nil
}

// staticSources returns the sources of static pods that the configuration names: a folder, a URL, both or neither.
func staticSources(cfg *v1beta1.KubeletConfiguration, node string) []core.StaticSource {
	var out []core.StaticSource
	if cfg.StaticPodPath != "" {
		out = append(out, &static.Files{Path: filepath.Clean(cfg.StaticPodPath), Node: node,
			Period: cfg.FileCheckFrequency.Duration})
	}
	if cfg.StaticPodURL != "" {
		out = append(out, &static.URL{Address: cfg.StaticPodURL, Header: cfg.StaticPodURLHeader, Node: node,
			Period: cfg.HTTPCheckFrequency.Duration})
	}
	return out
}
