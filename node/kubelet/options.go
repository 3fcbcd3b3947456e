package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/nodestatus"
)

// private makes folders that only the kubelet and administrators may read, on a system where file modes do not say so.
func private(dirs ...string) error {
	if !platform.IsWindows {
		return nil
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("creating a folder: %w", err)
		}
		if err := platform.Protect(dir); err != nil {
			return err
		}
	}
	return nil
}

// folders makes the kubelet's own folders and returns, as absolute paths, the one of its state and the one of the
// pods' logs.
func folders(cfg *v1beta1.KubeletConfiguration, given *Options) (root, logs string, err error) {
	root, err = filepath.Abs(given.RootDir)
	if err != nil {
		return "", "", fmt.Errorf("finding --root-dir %s: %w", given.RootDir, err)
	}
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", "", fmt.Errorf("creating --root-dir: %w", err)
	}

	logs, err = filepath.Abs(cfg.PodLogsDir)
	if err != nil {
		return "", "", fmt.Errorf("finding podLogsDir %s: %w", cfg.PodLogsDir, err)
	}
	return root, logs, private(logs, filepath.Join(filepath.Dir(logs), "containers"),
		filepath.Join(root, "checkpoints"), given.CertDir)
}

// pluginFolder is where device plugins, and their DaemonSets, expect the kubelet's socket, whatever the kubelet's
// folder is (DevicePluginPath and DevicePluginPathWindows of k8s.io/kubelet,
// pkg/apis/deviceplugin/v1beta1/constants.go).
const pluginFolder = "/var/lib/kubelet/device-plugins"

// deviceFolder returns the folder of device plugins: the given one, or the one that everybody expects, on Windows on
// the drive of root.
func deviceFolder(given, root string, windows bool) string {
	switch {
	case given != "":
		return given
	case windows && len(root) > 1 && root[1] == ':':
		return root[:2] + strings.ReplaceAll(pluginFolder, "/", `\`)
	}
	return pluginFolder
}

// assembly is a kubelet that is put together: its options, and those of what gives pods devices, processors, memory and
// claims.
type assembly struct {
	core.Options
	allot     allot.Options
	deviceDir string // of the sockets of device plugins
}

// options returns the kubelet's options and the node's addresses, for which it waits until the host has some.
func options(ctx context.Context, cfg *v1beta1.KubeletConfiguration, given *Options) (*assembly, *nodeAddresses,
	error) {
	root, logs, err := folders(cfg, given)
	if err != nil {
		return nil, nil, err
	}
	host, err := platform.ReadHost(root)
	if err != nil {
		return nil, nil, err
	}

	name := strings.ToLower(strings.TrimSpace(cmp.Or(given.Hostname, host.Hostname)))
	if name == "" {
		return nil, nil, errors.New("empty hostname is invalid")
	}

	addresses, err := newNodeAddresses(given.NodeIP, name, thisHost())
	if err == nil {
		err = addresses.wait(ctx)
	}
	if err != nil {
		return nil, nil, err
	}

	machine, err := readMachine(ctx, cfg, os.DirFS("/sys"), host)
	if err != nil {
		return nil, nil, err
	}
	kept, err := reserveCPUs(cfg, machine)
	if err != nil {
		return nil, nil, err
	}
	pods := core.NewPods()
	o := &assembly{deviceDir: deviceFolder(given.DeviceDir, root, platform.IsWindows),
		allot:   allot.Options{Pods: pods.View},
		Options: core.Options{RootDir: root, PodLogsDir: logs, Windows: platform.IsWindows, Pods: pods}}
	if o.Node, err = nodeOptions(cfg, given, name, host); err != nil {
		return nil, nil, err
	}

	o.Node.Changed = wakeup.New()
	o.Node.IPs, o.PodRange = addresses.list, addresses.avoid
	if o.Pressure.Desired, err = evictionSettings(cfg); err != nil {
		return nil, nil, err
	}
	if err := giveCgroups(cfg, o, host, root); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(place(cfg, o, machine, kept), giveIDs(cfg, o)); err != nil {
		return nil, nil, err
	}

	configured(o, cfg, name)
	o.Burst = collectLessInBursts(os.Getenv)
	resolver := newHostResolver(*cfg.ResolverConfig, addresses.list)
	o.HostDNS = func() dns.Config { return resolver.settings(ctx) }
	_, err = resolver.read()
	return o, addresses, err
}

// configured sets what the configuration alone says. name is the node's.
func configured(o *assembly, cfg *v1beta1.KubeletConfiguration, name string) {
	if cfg.CrashLoopBackOff.MaxContainerRestartPeriod != nil {
		o.MaxBackoff = cfg.CrashLoopBackOff.MaxContainerRestartPeriod.Duration
	}
	o.LeaseSeconds = cfg.NodeLeaseDurationSeconds
	o.Static = staticSources(cfg, name)
	o.UnsafeSysctls, o.MaxImages = cfg.AllowedUnsafeSysctls, int(*cfg.NodeStatusMaxImages)
	o.DNS = dns.Cluster{Servers: cfg.ClusterDNS, Domain: cfg.ClusterDomain}
}

// nodeOptions returns the description of the node: from the configuration, the command line and the machine.
func nodeOptions(cfg *v1beta1.KubeletConfiguration, given *Options, name string,
	host platform.Host) (nodestatus.Options, error) {
	o := nodestatus.Options{Name: name, Port: cfg.Port, Version: Version, Host: host,
		DeclaredFeatures: config.DeclaredFeatures,
		Taints:           cfg.RegisterWithTaints, ProviderID: cfg.ProviderID, NoRegister: !*cfg.RegisterNode,
		MaxPods: int64(cfg.MaxPods), PodsPerCore: int64(cfg.PodsPerCore),
		StatusPeriod: cfg.NodeStatusUpdateFrequency.Duration, ReportPeriod: cfg.NodeStatusReportFrequency.Duration}

	var err error
	if o.Labels, err = parseLabels(given.Labels); err != nil {
		return o, err
	}
	if err := cloud(&o, given); err != nil {
		return o, err
	}
	o.Reserved, err = reserved(cfg, host)
	return o, err
}

// cloud prepares a node that a cloud controller will describe further.
func cloud(o *nodestatus.Options, given *Options) error {
	switch given.CloudProvider {
	case "":
		return nil
	case "external":
		o.ExternalCloud, o.IPsGiven = true, given.NodeIP != ""
		return nil
	}
	return fmt.Errorf("unknown cloud provider: %s (only external is left)", given.CloudProvider)
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
	return out, checkLabels(out)
}

// checkLabels refuses labels that only the cluster may give a node, as upstream's kubelet does.
func checkLabels(labels map[string]string) error {
	var unknown []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if errs := validation.IsQualifiedName(k); len(errs) > 0 {
			return fmt.Errorf("--node-labels: %q: %s", k, strings.Join(errs, "; "))
		}
		if errs := validation.IsValidLabelValue(labels[k]); len(errs) > 0 {
			return fmt.Errorf("--node-labels: %q: %s", labels[k], strings.Join(errs, "; "))
		}
		domain, _, _ := strings.Cut(k, "/")
		reserved := domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "k8s.io" ||
			strings.HasSuffix(domain, ".k8s.io")
		if reserved && domain != k && !kubeletapis.IsKubeletLabel(k) {
			unknown = append(unknown, k)
		}
	}

	if len(unknown) > 0 {
		return fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: %v", unknown)
	}
	return nil
}

// giveCgroups gives pods their place in the cgroup tree, which Windows has not, and limits what all of them have
// together.
func giveCgroups(cfg *v1beta1.KubeletConfiguration, o *assembly, host platform.Host, root string) error {
	if platform.IsWindows {
		return nil
	}
	usage, _ := platform.ReadUsage(root) // what is not known is not limited
	most, err := forPods(cfg, host, usage.MaxTasks)
	if err != nil {
		return err
	}
	groups, err := reservedGroups(cfg)
	if err == nil {
		o.Cgroups = cgroup.New(cfg.CgroupRoot).Most(most).Pids(*cfg.PodPidsLimit).
			Quotas(*cfg.CPUCFSQuota, cfg.CPUCFSQuotaPeriod.Duration).Reserve(groups...)
	}
	return err
}

// reservedGroups are the cgroups of the system and of the node's own programs that are to have no more than what is
// reserved for them.
func reservedGroups(cfg *v1beta1.KubeletConfiguration) (groups []cgroup.Reserved, err error) {
	for _, g := range []struct {
		name                string
		all, processorsOnly string
		most                map[string]string
	}{
		{cfg.SystemReservedCgroup, config.EnforceSystem, config.EnforceSystemCompressible, cfg.SystemReserved},
		{cfg.KubeReservedCgroup, config.EnforceKube, config.EnforceKubeCompressible, cfg.KubeReserved},
	} {
		compressible := slices.Contains(cfg.EnforceNodeAllocatable, g.processorsOnly)
		if !compressible && !slices.Contains(cfg.EnforceNodeAllocatable, g.all) {
			continue
		}
		most := v1.ResourceList{}
		if err := addUp(most, g.most); err != nil {
			return nil, err
		}
		groups = append(groups, cgroup.Reserved{Name: g.name, Most: most, Compressible: compressible})
	}
	return groups, nil
}

// addUp adds quantities to those in sum.
func addUp(sum v1.ResourceList, texts map[string]string) error {
	for name, text := range texts {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("reserved %s of %q: %w", name, text, err)
		}
		have := sum[v1.ResourceName(name)]
		have.Add(q)
		sum[v1.ResourceName(name)] = have
	}
	return nil
}

// forPods is what all pods together may have: what the machine has, less what is reserved for the system and the
// node's own programs if that is to be enforced. Eviction thresholds are not subtracted: pods are evicted before they
// reach it.
func forPods(cfg *v1beta1.KubeletConfiguration, host platform.Host, tasks uint64) (v1.ResourceList, error) {
	all := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(host.CPUs), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(host.MemoryBytes, resource.BinarySI)}
	if tasks > 0 {
		all["pid"] = *resource.NewQuantity(int64(tasks), resource.DecimalSI)
	}
	if !slices.Contains(cfg.EnforceNodeAllocatable, "pods") {
		return all, nil
	}
	kept := *cfg
	kept.EvictionHard = nil
	less, err := reserved(&kept, host)
	for name, q := range all {
		q.Sub(less[name])
		if q.Sign() < 0 {
			q.Set(0)
		}
		all[name] = q
	}
	return all, err
}

// reserved adds up the resources that pods cannot use: those of the system, of the node's own programs, and the
// eviction thresholds.
func reserved(cfg *v1beta1.KubeletConfiguration, host platform.Host) (v1.ResourceList, error) {
	out := v1.ResourceList{}
	add := func(name v1.ResourceName, q resource.Quantity) {
		sum := out[name]
		sum.Add(q)
		out[name] = sum
	}

	if err := errors.Join(addUp(out, cfg.SystemReserved), addUp(out, cfg.KubeReserved)); err != nil {
		return nil, err
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
