package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/node/util/sysctl"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"
)

// checker collects the mistakes of a configuration. Their texts are upstream's (pkg/kubelet/apis/config/validation of
// 1.36.3), which installers and their users know.
type checker struct{ errs []error }

// refuse adds a mistake if bad.
func (c *checker) refuse(bad bool, format string, args ...any) {
	if bad {
		c.errs = append(c.errs, fmt.Errorf("invalid configuration: "+format, args...))
	}
}

// port refuses a number that is not a port; zero allows 0. least is upstream's text for the smallest number.
func (c *checker) port(value int32, zero bool, name, flag, least string) {
	bad := len(utilvalidation.IsValidPortNum(int(value))) > 0 && !(zero && value == 0)
	c.refuse(bad, "%s (--%s) %v must be between %s and 65535, inclusive", name, flag, value, least)
}

func (c *checker) notNegative(value int64, name, flag string) {
	c.refuse(value < 0, "%s (--%s) %v must not be a negative number", name, flag, value)
}

// period refuses a period that a ticker cannot have. Upstream has no text for these: its kubelet panics.
func (c *checker) period(value time.Duration, name, flag string) {
	c.refuse(value <= 0, "%s (--%s) %v must be greater than 0", name, flag, value)
}

func (c *checker) percent(value int32, name, flag string) {
	c.refuse(value < 0 || value > 100, "%s (--%s) %v must be between 0 and 100, inclusive", name, flag, value)
}

// check returns an error for settings that cannot work, and a warning for each setting without effect on this system.
func check(c *v1beta1.KubeletConfiguration, windows bool) (warnings []string, err error) {
	var k checker
	checkNumbers(&k, c)
	checkChoices(&k, c)
	checkQuantities(&k, c)
	checkPeriods(&k, c)

	for _, t := range c.RegisterWithTaints {
		if err := Taint(t); err != nil {
			k.errs = append(k.errs, fmt.Errorf("invalid taint: %w", err))
		}
		k.refuse(t.TimeAdded != nil, "taint.TimeAdded is not nil")
	}
	for _, ip := range c.ClusterDNS {
		k.refuse(net.ParseIP(ip) == nil, "clusterDNS (--cluster-dns) %q is not an IP address", ip)
	}
	k.refuse(net.ParseIP(c.Address) == nil, "address (--address) %q is not an IP address", c.Address)
	k.refuse((c.TLSCertFile == "") != (c.TLSPrivateKeyFile == ""),
		"tlsCertFile and tlsPrivateKeyFile must be set together")

	warnings = append(checkGates(&k, c.FeatureGates), withoutEffect(c, windows)...)
	if windows {
		warnings = append(warnings, onWindows(&k, c)...)
	}
	return warnings, errors.Join(k.errs...)
}

// checkNumbers checks counts, ports and percentages.
func checkNumbers(k *checker, c *v1beta1.KubeletConfiguration) {
	k.refuse(c.NodeLeaseDurationSeconds <= 0, "nodeLeaseDurationSeconds must be greater than 0")
	k.notNegative(int64(c.EventBurst), "eventBurst", "event-burst")
	k.notNegative(int64(*c.EventRecordQPS), "eventRecordQPS", "event-qps")

	k.port(*c.HealthzPort, true, "healthzPort", "healthz-port", "1")
	k.port(c.Port, false, "port", "port", "1")
	k.port(c.ReadOnlyPort, true, "readOnlyPort", "read-only-port", "0")

	k.percent(*c.ImageGCHighThresholdPercent, "imageGCHighThresholdPercent", "image-gc-high-threshold")
	k.percent(*c.ImageGCLowThresholdPercent, "imageGCLowThresholdPercent", "image-gc-low-threshold")
	k.refuse(*c.ImageGCLowThresholdPercent >= *c.ImageGCHighThresholdPercent,
		"imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) %v",
		*c.ImageGCLowThresholdPercent, *c.ImageGCHighThresholdPercent)
	k.refuse(c.ImageMinimumGCAge.Duration < 0, "imageMinimumGCAge %v must not be negative",
		c.ImageMinimumGCAge.Duration)
	k.refuse(c.ImageMaximumGCAge.Duration < 0, "imageMaximumGCAge %v must not be negative",
		c.ImageMaximumGCAge.Duration)
	k.refuse(c.ImageMaximumGCAge.Duration > 0 && c.ImageMaximumGCAge.Duration <= c.ImageMinimumGCAge.Duration,
		"imageMaximumGCAge %v must be greater than imageMinimumGCAge %v", c.ImageMaximumGCAge.Duration,
		c.ImageMinimumGCAge.Duration)

	k.notNegative(int64(c.KubeAPIBurst), "kubeAPIBurst", "kube-api-burst")
	k.notNegative(int64(*c.KubeAPIQPS), "kubeAPIQPS", "kube-api-qps")
	k.refuse(*c.NodeStatusMaxImages < -1, "nodeStatusMaxImages (--node-status-max-images) %v must be -1 or greater",
		*c.NodeStatusMaxImages)
	k.notNegative(c.MaxOpenFiles, "maxOpenFiles", "max-open-files")
	k.notNegative(int64(c.MaxPods), "maxPods", "max-pods")
	k.refuse(*c.OOMScoreAdj < -1000 || *c.OOMScoreAdj > 1000,
		"oomScoreAdj (--oom-score-adj) %v must be between -1000 and 1000, inclusive", *c.OOMScoreAdj)
	k.notNegative(int64(c.PodsPerCore), "podsPerCore", "pods-per-core")
	k.notNegative(int64(c.RegistryBurst), "registryBurst", "registry-burst")
	k.notNegative(int64(*c.RegistryPullQPS), "registryPullQPS", "registry-qps")

	if n := c.MaxParallelImagePulls; n != nil {
		k.refuse(*n < 1, "maxParallelImagePulls %v must be a positive number", *n)
		k.refuse(*n > 1 && c.SerializeImagePulls != nil && *c.SerializeImagePulls,
			"maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false")
	}

	period := c.CrashLoopBackOff.MaxContainerRestartPeriod.Duration
	k.refuse(period.Milliseconds() < 1000 || period.Milliseconds() > 300000,
		"CrashLoopBackOff.MaxContainerRestartPeriod (got: %v seconds) must be set between 1s and 300s",
		period.Seconds())
	critical := c.ShutdownGracePeriodCriticalPods.Duration
	all := c.ShutdownGracePeriod.Duration
	k.refuse(critical > all, "shutdownGracePeriodCriticalPods %v must be <= shutdownGracePeriod %v", critical, all)

	k.refuse(*c.ContainerLogMaxWorkers < 1, "containerLogMaxWorkers %v must be greater than or equal to 1",
		*c.ContainerLogMaxWorkers)
	interval := c.ContainerLogMonitorInterval.Duration
	k.refuse(interval < 3*time.Second, "containerLogMonitorInterval %v must be greater than or equal to 3s", interval)
	k.refuse(*c.ContainerLogMaxFiles <= 1, "containerLogMaxFiles (--container-log-max-files) %v must be greater than 1",
		*c.ContainerLogMaxFiles)
}

// checkPeriods checks what tickers and time limits are made from.
func checkPeriods(k *checker, c *v1beta1.KubeletConfiguration) {
	k.period(c.FileCheckFrequency.Duration, "fileCheckFrequency", "file-check-frequency")
	k.period(c.HTTPCheckFrequency.Duration, "httpCheckFrequency", "http-check-frequency")
	k.period(c.NodeStatusUpdateFrequency.Duration, "nodeStatusUpdateFrequency", "node-status-update-frequency")
	k.refuse(c.NodeStatusReportFrequency.Duration <= 0, "nodeStatusReportFrequency %v must be greater than 0",
		c.NodeStatusReportFrequency.Duration)
	k.period(c.RuntimeRequestTimeout.Duration, "runtimeRequestTimeout", "runtime-request-timeout")
	k.refuse(c.EvictionPressureTransitionPeriod.Duration < 0,
		"evictionPressureTransitionPeriod %v must not be negative", c.EvictionPressureTransitionPeriod.Duration)
	for signal := range c.EvictionSoft {
		text := c.EvictionSoftGracePeriod[signal]
		grace, err := time.ParseDuration(text)
		k.refuse(text != "" && (err != nil || grace < 0), "evictionSoftGracePeriod: %s of %q is not a duration", signal,
			text)
	}
}

func (c *checker) oneOf(value, name, flag string, known ...string) {
	c.refuse(!slices.Contains(known, value), "%s (--%s) %q must be one of: %q", name, flag, value, known)
}

// checkChoices checks fields with a fixed set of values, and fields that exclude each other.
func checkChoices(k *checker, c *v1beta1.KubeletConfiguration) {
	quotaPeriod := c.CPUCFSQuotaPeriod.Duration
	k.refuse(quotaPeriod < time.Millisecond || quotaPeriod > time.Second,
		"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) %v must be between 1ms and 1sec, inclusive", quotaPeriod)
	k.refuse(len(c.QOSReserved) > 0 && !On(c.FeatureGates, "QOSReserved"),
		"qosReserved (--qos-reserved) %v requires feature gate QOSReserved", c.QOSReserved)
	k.refuse(c.RunOnce, "runOnce (--runOnce) %v, Runonce mode has been deprecated and should not be set", c.RunOnce)
	k.oneOf(c.TopologyManagerPolicy, "topologyManagerPolicy", "topology-manager-policy", "none", "best-effort",
		"restricted", "single-numa-node")
	k.oneOf(c.TopologyManagerScope, "topologyManagerScope", "topology-manager-scope", "container", "pod")
	checkReserved(k, c)
	k.oneOf(c.HairpinMode, "hairpinMode", "hairpin-mode", "none", "hairpin-veth", "promiscuous-bridge")
	k.refuse(!slices.Contains([]string{"", "NoSwap", "LimitedSwap"}, c.MemorySwap.SwapBehavior),
		"memorySwap.swapBehavior %q must be one of: \"\", %q or %q", c.MemorySwap.SwapBehavior, "LimitedSwap", "NoSwap")
	k.refuse(!slices.Contains([]v1beta1.KubeletAuthorizationMode{v1beta1.KubeletAuthorizationModeWebhook,
		v1beta1.KubeletAuthorizationModeAlwaysAllow}, c.Authorization.Mode),
		"authorization.mode %q must be Webhook or AlwaysAllow", c.Authorization.Mode)
	k.refuse(*c.EnableSystemLogQuery && !*c.EnableSystemLogHandler,
		"enableSystemLogHandler is required for enableSystemLogQuery")
	if c.ReservedSystemCPUs != "" {
		k.refuse(c.SystemReservedCgroup != "" || c.KubeReservedCgroup != "",
			"can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)")
		_, err := cpuset.Parse(c.ReservedSystemCPUs)
		k.refuse(err != nil, "unable to parse reservedSystemCPUs (--reserved-cpus) %v, error: %v", c.ReservedSystemCPUs,
			err)
	}
	checkReservedMemory(k, c.ReservedMemory)
	for _, pattern := range c.AllowedUnsafeSysctls {
		ns, _, _ := sysctl.GetNamespace(pattern)
		k.refuse(ns == sysctl.UnknownNamespace, "the sysctls %q are not known to be namespaced", pattern)
	}

	// it has none on Windows
	k.refuse(c.CgroupDriver != "cgroupfs" && c.CgroupDriver != "systemd" && c.CgroupDriver != "",
		"cgroupDriver (--cgroup-driver) %q is neither cgroupfs nor systemd", c.CgroupDriver)
	k.refuse(c.SystemCgroups != "" && c.CgroupRoot == "",
		"systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified")
}

// checkReservedMemory checks what is reserved of NUMA nodes.
func checkReservedMemory(k *checker, list []v1beta1.MemoryReservation) {
	type place struct {
		node int32
		name v1.ResourceName
	}
	seen := map[place]bool{}
	for _, r := range list {
		for name, q := range r.Limits {
			k.refuse(name != v1.ResourceMemory && !strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix),
				"the limit type %q for NUMA node %d is not supported, only %v is accepted", name, r.NumaNode,
				[]v1.ResourceName{v1.ResourceMemory, v1.ResourceHugePagesPrefix + "<HugePageSize>"})
			k.refuse(q.IsZero(), "reserved memory may not be zero for NUMA node %d and resource %q", r.NumaNode, name)
			k.refuse(seen[place{r.NumaNode, name}],
				"the reserved memory has a duplicate value for NUMA node %d and resource %q", r.NumaNode, name)
			seen[place{r.NumaNode, name}] = true
		}
	}
}

// checkQuantities checks amounts of resources and eviction thresholds.
func checkQuantities(k *checker, c *v1beta1.KubeletConfiguration) {
	for field, m := range map[string]map[string]string{"systemReserved": c.SystemReserved,
		"kubeReserved": c.KubeReserved} {
		for name, text := range m {
			_, ok := quantity(text)
			k.refuse(!ok, "%s: %s of %q is not a quantity", field, name, text)
		}
	}
	if q, ok := quantity(c.ContainerLogMaxSize); !ok || q.IsZero() {
		k.refuse(true, "containerLogMaxSize (--container-log-max-size) %q is not a size", c.ContainerLogMaxSize)
	}
	for field, m := range map[string]map[string]string{"evictionHard": c.EvictionHard, "evictionSoft": c.EvictionSoft} {
		for signal, text := range m {
			k.refuse(!validThreshold(text), "%s: %s of %q is neither a quantity nor a percentage", field, signal, text)
		}
	}
	for signal := range c.EvictionSoft {
		k.refuse(c.EvictionSoftGracePeriod[signal] == "",
			"grace period must be specified for the soft eviction threshold %s", signal)
	}
}

// validThreshold reports whether text is a quantity or a percentage.
func validThreshold(text string) bool {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(number, 64)
		return err == nil && p >= 0 && p <= 100
	}
	_, ok := quantity(text)
	return ok
}

// quantity parses an amount. ok is false for one that is negative, or that does not fit into an int64, such as 10E: its
// value would be another number.
func quantity(text string) (q resource.Quantity, ok bool) {
	q, err := resource.ParseQuantity(text)
	return q, err == nil && q.Sign() >= 0 && q.CmpInt64(math.MaxInt64) <= 0
}

// Taint returns an error for a taint that the API server would refuse.
func Taint(t v1.Taint) error {
	if errs := utilvalidation.IsQualifiedName(t.Key); len(errs) > 0 {
		return fmt.Errorf("%s: %s", t.Key, strings.Join(errs, "; "))
	}
	if errs := utilvalidation.IsValidLabelValue(t.Value); len(errs) > 0 {
		return fmt.Errorf("%s=%s: %s", t.Key, t.Value, strings.Join(errs, "; "))
	}
	known := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
	if !slices.Contains(known, t.Effect) {
		return fmt.Errorf("%s: %q is not an effect", t.Key, t.Effect)
	}
	return nil
}

// onWindows warns about settings of cgroups, which have no effect on Windows, and refuses those that upstream refuses
// there.
func onWindows(k *checker, c *v1beta1.KubeletConfiguration) (warnings []string) {
	ignored := map[string]bool{
		"CgroupsPerQOS (--cgroups-per-qos)":                   *c.CgroupsPerQOS,
		"EnforceNodeAllocatable (--enforce-node-allocatable)": len(c.EnforceNodeAllocatable) > 0,
		"SystemCgroups (--system-cgroups)":                    c.SystemCgroups != "",
		"CgroupRoot (--cgroup-root)":                          c.CgroupRoot != "",
		"SystemReservedCgroup (--system-reserved-cgroup)":     c.SystemReservedCgroup != "",
		"KubeReservedCgroup (--kube-reserved-cgroup)":         c.KubeReservedCgroup != "",
	}
	for name, set := range ignored {
		if set {
			warnings = append(warnings, name+" is not supported on Windows and is ignored")
		}
	}
	for name, is := range map[string]bool{"cpuManagerPolicy": c.CPUManagerPolicy != "none",
		"memoryManagerPolicy":   c.MemoryManagerPolicy != "None",
		"topologyManagerPolicy": c.TopologyManagerPolicy != "none"} {
		if is { // with upstream it depends on the gate WindowsCPUAndMemoryAffinity, which is off by default
			warnings = append(warnings, name+" is not supported on Windows and is ignored")
		}
	}
	slices.Sort(warnings)
	k.refuse(c.SingleProcessOOMKill != nil, "singleProcessOOMKill is not supported on Windows")
	k.refuse(c.UserNamespaces != nil, "userNamespaces is not supported on Windows")
	return warnings
}

// What enforceNodeAllocatable may have, upstream's names.
const (
	EnforcePods               = "pods"
	enforceNone               = "none"
	EnforceSystem             = "system-reserved"
	EnforceKube               = "kube-reserved"
	EnforceSystemCompressible = "system-reserved-compressible"
	EnforceKubeCompressible   = "kube-reserved-compressible"
)

// checkReserved checks what is enforced besides the limit of all pods.
func checkReserved(k *checker, c *v1beta1.KubeletConfiguration) {
	has := map[string]bool{}
	for _, what := range c.EnforceNodeAllocatable {
		k.refuse(has[what], "duplicated enforcements %q in enforceNodeAllocatable (--enforce-node-allocatable)", what)
		has[what] = true
		switch what {
		case EnforcePods, enforceNone:
		case EnforceSystem, EnforceSystemCompressible:
			k.refuse(c.SystemReservedCgroup == "",
				"systemReservedCgroup (--system-reserved-cgroup) must be specified when %q or %q included in enforceNodeAllocatable (--enforce-node-allocatable)",
				EnforceSystem, EnforceSystemCompressible)
		case EnforceKube, EnforceKubeCompressible:
			k.refuse(c.KubeReservedCgroup == "",
				"kubeReservedCgroup (--kube-reserved-cgroup) must be specified when %q or %q included in enforceNodeAllocatable (--enforce-node-allocatable)",
				EnforceKube, EnforceKubeCompressible)
		default:
			k.refuse(true,
				"option %q specified for enforceNodeAllocatable (--enforce-node-allocatable). Valid options are %q, %q, %q, %q, %q or %q",
				what, EnforcePods, EnforceSystem, EnforceSystemCompressible, EnforceKube, EnforceKubeCompressible,
				enforceNone)
		}
	}

	const both = "both %q and %q cannot be specified together in enforceNodeAllocatable (--enforce-node-allocatable)"
	k.refuse(has[EnforceSystem] && has[EnforceSystemCompressible], both, EnforceSystem, EnforceSystemCompressible)
	k.refuse(has[EnforceKube] && has[EnforceKubeCompressible], both, EnforceKube, EnforceKubeCompressible)
	k.refuse(has[enforceNone] && len(has) > 1,
		"enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional enforcements when %q is specified", enforceNone)
}
