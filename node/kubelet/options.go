package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/nodestatus"
)

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

// describeNode says what the node object shows, and when pods are evicted.
func (p *parts) describeNode(context.Context) (err error) {
	if p.node.evict, err = evictionSettings(p.cfg); err != nil {
		return err
	}
	p.node.Options, err = nodeOptions(p.cfg, p.given, p.host.name, p.host.Host)
	p.node.Reserved = p.machine.reserved
	p.node.IPs = p.addresses.list
	p.node.Changed = p.changed
	p.node.NetworkAwaited = p.gate.Why
	return err
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
	return o, cloud(&o, given)
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

// parseLabels reads key=value,… and checks what it reads.
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
func (p *parts) giveCgroups(context.Context) error {
	if platform.IsWindows {
		return nil
	}
	cfg := p.cfg
	usage, _ := platform.ReadUsage(p.host.root) // what is not known is not limited
	most, err := forPods(cfg, p.host.Host, usage.MaxTasks)
	if err != nil {
		return err
	}
	groups, err := reservedGroups(cfg)
	if err != nil {
		return err
	}
	tree := cgroup.New(cfg.CgroupRoot).Most(most).Pids(*cfg.PodPidsLimit).Reserve(groups...).
		Quotas(*cfg.CPUCFSQuota, cfg.CPUCFSQuotaPeriod.Duration).
		Decided(func(ctx context.Context) (string, error) {
			return decideDriver(ctx, cfg.CgroupDriver, p.runtime.CgroupDriver)
		})
	if p.pinned.noQuota {
		tree = tree.Unlimited(p.pinned.manager.HasCPUs)
	}
	p.cgroups = &tree
	return nil
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

	// Signals of other things take nothing from what pods can have.
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
