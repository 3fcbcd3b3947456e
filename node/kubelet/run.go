// Package kubelet wires a node's kubelet: it connects the core to the API server, to the container runtime and to the
// host.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/config"
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

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	p := &parts{given: &given, cfg: cfg, end: end, pods: core.NewPods(), changed: wakeup.New()}
	plan, err := component.Order(p.components())
	if err != nil {
		return err
	}
	return ending(ctx, plan.Run(ctx))
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
