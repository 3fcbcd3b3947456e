// Package kubelet is the command `porthole kubelet`: it has upstream's flags and configuration file.
package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/node/join"
	node "porthole.dev/porthole/node/kubelet"
)

// Flags of upstream's kubelet that have no effect here, by the kind of their value.
var (
	ignoredTexts = []string{"pod-infra-container-image",
		"experimental-mounter-path", "log-flush-frequency", "logging-format", "vmodule", "reserved-memory",
		"maximum-dead-containers", "maximum-dead-containers-per-container", "minimum-container-ttl-duration"}
	ignoredSwitches = []string{"experimental-allocatable-ignore-eviction", "logtostderr"}
)

// gone are flags of earlier kubelets that scripts for Windows nodes give, with what replaced them. Until 1.24, when
// dockershim and its network plugins were removed: kubernetes/kubernetes CHANGELOG-1.24.md; the others between 1.8 and
// 1.35, in the CHANGELOG of that version.
var gone = map[string]string{
	"docker*":                         "the kubelet speaks CRI only: give --container-runtime-endpoint the address of containerd",
	"cni-bin-dir":                     "the runtime calls CNI plugins: bin_dirs in containerd's configuration",
	"cni-conf-dir":                    "the runtime calls CNI plugins: conf_dir in containerd's configuration; porthole routes --cni-conf-dir writes there",
	"cni-cache-dir":                   "the runtime calls CNI plugins, and keeps their results",
	"network-plugin-*":                "the runtime calls CNI plugins, and sets the MTU that they say",
	"non-masquerade-cidr":             "the CNI plugin's configuration has what is not translated; porthole routes writes it",
	"container-runtime":               "every runtime is one of CRI: --container-runtime-endpoint alone",
	"image-pull-progress-deadline":    "containerd's configuration has image_pull_progress_timeout",
	"azure-container-registry-config": "use --image-credential-provider-config and --image-credential-provider-bin-dir",
	"cloud-config":                    "a cloud controller in the cluster has it: --cloud-provider=external",
	"api-servers":                     "use --kubeconfig, which has the server's address",
	"require-kubeconfig":              "without --kubeconfig only static pods run",
	"allow-privileged":                "Pod Security Admission decides, by labels of namespaces",
	"keep-terminated-pod-volumes":     "volumes of pods that have ended are removed",
	"enable-custom-metrics":           "metrics come from the container runtime",
	"cadvisor-port":                   "figures of containers are at /metrics/cadvisor of the kubelet's port",
	"dynamic-config-dir":              "use --config and --config-dir",
	"alsologtostderr":                 "everything goes to standard error, or to --log-file",
	"log-dir":                         "everything goes to standard error, or to --log-file",
	"stderrthreshold":                 "everything goes to standard error, or to --log-file",
}

// options are what the flags set.
type options struct {
	node.Options
	verbosity int32
}

// Command returns the command `porthole kubelet`.
func Command() *cobra.Command {
	var o options
	var version bool
	c := &cobra.Command{Use: "kubelet", Short: "Run the pods of this node", Args: cobra.NoArgs,
		Long: "kubelet runs the pods of this node, on Windows and Linux. It takes upstream's flags and KubeletConfiguration files; a flag that is\n" +
			"given wins over the file. A copy of this program with the name kubelet or kubelet.exe is this command.",
		Example: "  porthole kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf\n" +
			`  kubelet.exe --config=C:\k\kubelet.yaml --kubeconfig=C:\k\config --log-file=C:\k\logs\kubelet.log` +
			"\n" +
			"  porthole kubelet --pod-manifest-path=/etc/kubernetes/manifests    # static pods only, without an API server",
		RunE: func(c *cobra.Command, _ []string) error {
			if version { // installers read it so; cobra's own would need a template
				_, err := fmt.Fprintln(c.OutOrStdout(), "Kubernetes "+node.Version)
				return err
			}
			if err := logging.Set(int(o.verbosity), ""); err != nil {
				return err
			}
			o.WithoutEffect = withoutEffect(c.Flags())
			o.Flags = flagValues(c.Flags())
			return kept(c.Context(), o.Options)
		}}

	register(c.Flags(), &o)
	program.ExplainFlags(c, gone)
	c.Flags().BoolVar(&version, "version", false, "print the version of Kubernetes whose kubelet this one equals")
	return c
}

// register adds the kubelet's flags, except those that print something and end.
func register(fs *pflag.FlagSet, o *options) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"file with the address and the credentials of the API server; without it only static pods run")
	fs.StringVar(&o.Bootstrap, "bootstrap-kubeconfig", "",
		"kubeconfig that may ask for a client certificate; used while --kubeconfig does not exist or has expired")
	fs.StringVar(&o.Config, "config", "", "KubeletConfiguration file; flags go before it")
	fs.StringVar(&o.ConfigDir, "config-dir", "",
		"folder of *.conf files that go before --config, later names before earlier")
	fs.StringVar(&o.Hostname, "hostname-override", "", "name of the node, if not the host name")
	fs.StringVar(&o.NodeIP, "node-ip", "", "address of the node, or one of each family with a comma")
	fs.StringVar(&o.RootDir, "root-dir", "/var/lib/kubelet", "folder of volumes and other state")
	fs.StringVar(&o.DeviceDir, "device-plugin-dir", "",
		"folder of the sockets of device plugins; if empty /var/lib/kubelet/device-plugins, whatever --root-dir is, because\n"+
			"plugins expect it there. Several kubelets on one machine need a folder each")
	fs.StringVar(&o.RecordFacts, "record-facts", "",
		"folder in which to record, for later analysis, what is learned about each pod and what is planned; "+
			"no secrets, 64 MiB at most; off if empty")
	fs.BoolVar(&o.KeepKernel, "keep-kernel-settings", false,
		"Linux: leave vm.overcommit_memory, kernel.panic and the like as they are, unless protectKernelDefaults has them checked;\n"+
			"for nodes in namespaces, which share the kernel with a machine that is no node")
	fs.StringVar(&o.CertDir, "cert-dir", "", "folder of certificates; pki below --root-dir if empty")
	fs.StringVar(&o.RegistryConfig, "registry-config", "",
		"Windows: folder of hosts.toml files, the same as containerd's config_path. The kubelet needs it to find\n"+
			"registries and mirrors when it checks, before a pull, for which builds of Windows an image is")
	fs.StringVar(&o.CredentialConfig, "image-credential-provider-config", "",
		"file, or folder of files, with a CredentialProviderConfig: programs that know the logins of images")
	fs.StringVar(&o.CredentialDir, "image-credential-provider-bin-dir", "", "folder of these programs")
	fs.StringVar(&o.RuntimeCgroup, "runtime-cgroups", "",
		"cgroup of the container runtime, for figures of what it uses; if empty that of the process at its socket")
	fs.StringVar(&o.BootRecord, "network-boot-record", "",
		"Windows: file in which porthole routes says that the pod network of this boot is made (boot.json in its --state-dir);\n"+
			"pods wait for it. Empty: they start as soon as the runtime calls its network ready")
	fs.StringVar(&o.LockFile, "lock-file", "", "Linux: file whose lock the kubelet waits for, and keeps until it ends")
	fs.BoolVar(&o.LeaveOnContention, "exit-on-lock-contention", false, "end once another process opens --lock-file")
	fs.StringVar(&o.Labels, "node-labels", "", "labels to register with: key=value,…")
	fs.StringVar(&o.CloudProvider, "cloud-provider", "", "external: the node's addresses come from a cloud controller")
	fs.StringVar(&o.PriorityClass, "windows-priorityclass", "NORMAL_PRIORITY_CLASS",
		"priority class of the process on Windows")
	fs.Bool(program.ServiceFlag, false, "run under the service manager of Windows, as the service kubelet")
	program.LogFlags(fs)

	fs.Var(&networkPlugin{}, "network-plugin",
		"accepted for old command lines: cni, which has no effect, because the runtime calls the plugins")

	for _, name := range ignoredTexts {
		fs.String(name, "", "accepted for upstream's sake; has no effect")
	}
	for _, name := range ignoredSwitches {
		fs.Bool(name, false, "accepted for upstream's sake; has no effect")
	}
	fs.Int32VarP(&o.verbosity, "v", "v", 0, "log level: 0 changes of state … 6 payloads")
	o.Settings = config.AddFlags(fs)
}

// CheckFlags returns an error if the kubelet would refuse these arguments: it reads them by its own flags, over an
// empty configuration.
func CheckFlags(args []string) error {
	var o options
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	fs.Usage = func() {}
	register(fs, &o)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q is no flag", fs.Arg(0))
	}
	_, _, err := config.Load(config.Source{Windows: platform.IsWindows, Flags: o.Settings})
	return err
}

// kept runs the kubelet, and beside it what takes an interrupted upgrade of this node back. That can end the kubelet,
// with an error, so that it is started again.
func kept(ctx context.Context, o node.Options) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := join.Keep(ctx, o.Kubeconfig); err != nil {
			stop(err)
		}
	}()
	err := node.Run(ctx, o)
	if cause := context.Cause(ctx); errors.Is(cause, join.ErrRestart) {
		return cause
	}
	return err
}

// networkPlugin is a flag that upstream's kubelet had until 1.23. Command lines for Windows nodes from that time give
// it.
type networkPlugin struct{ value string }

func (p *networkPlugin) String() string { return p.value }
func (p *networkPlugin) Type() string   { return "string" }

// Set refuses all values but cni, with what to use instead.
func (p *networkPlugin) Set(value string) error {
	if value != "" && value != "cni" {
		return errors.New(cmp.Or(contract.Instead(value),
			"only cni is there: the container runtime calls the plugins of its own configuration"))
	}
	p.value = value
	return nil
}

// withoutEffect lists the flags that were given and have no effect.
func withoutEffect(fs *pflag.FlagSet) []string {
	return slices.DeleteFunc(slices.Concat(ignoredTexts, ignoredSwitches, []string{"network-plugin"}),
		func(name string) bool { return !fs.Changed(name) })
}

// flagValues returns the value of every flag, by name.
func flagValues(fs *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) { out[f.Name] = f.Value.String() })
	return out
}
