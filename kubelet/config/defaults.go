package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
)

// The or functions set a field to v if it is not set.

func orString(p *string, v string) {
	if *p == "" {
		*p = v
	}
}

func orInt(p *int32, v int32) {
	if *p == 0 {
		*p = v
	}
}

func orTime(p *metav1.Duration, v time.Duration) {
	if p.Duration == 0 {
		p.Duration = v
	}
}

func orPtr[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// setDefaults fills in upstream's defaults (k8s.io/kubernetes pkg/kubelet/apis/config/v1beta1/defaults.go of 1.36.3).
func setDefaults(c *v1beta1.KubeletConfiguration, windows bool) {
	defaultServer(c)
	defaultNode(c)
	defaultPods(c)
	defaultImagesAndLogs(c)
	if windows {
		defaultWindows(c)
		return
	}
	defaultLinux(c)
}

// defaultServer fills in the addresses, handlers, and caches of the servers on ports 10250 and 10248.
func defaultServer(c *v1beta1.KubeletConfiguration) {
	orString(&c.Address, "0.0.0.0")
	orInt(&c.Port, 10250)
	orPtr(&c.HealthzPort, 10248)
	orString(&c.HealthzBindAddress, "127.0.0.1")
	orPtr(&c.EnableServer, true)
	orPtr(&c.EnableDebuggingHandlers, true)
	orPtr(&c.EnableSystemLogHandler, true)
	orPtr(&c.EnableSystemLogQuery, false)
	orPtr(&c.EnableProfilingHandler, true)
	orPtr(&c.EnableDebugFlagsHandler, true)
	orTime(&c.StreamingConnectionIdleTimeout, 4*time.Hour)
	orPtr(&c.Authentication.Anonymous.Enabled, false)
	orPtr(&c.Authentication.Webhook.Enabled, true)
	orTime(&c.Authentication.Webhook.CacheTTL, 2*time.Minute)
	orTime(&c.Authorization.Webhook.CacheAuthorizedTTL, 5*time.Minute)
	orTime(&c.Authorization.Webhook.CacheUnauthorizedTTL, 30*time.Second)
	if c.Authorization.Mode == "" {
		c.Authorization.Mode = v1beta1.KubeletAuthorizationModeWebhook
	}
	orTime(&c.VolumeStatsAggPeriod, time.Minute)
}

// defaultNode fills in what concerns the node object, the API client, and the node as a machine.
func defaultNode(c *v1beta1.KubeletConfiguration) {
	orTime(&c.SyncFrequency, time.Minute)
	orTime(&c.FileCheckFrequency, 20*time.Second)
	orTime(&c.HTTPCheckFrequency, 20*time.Second)
	if c.NodeStatusReportFrequency.Duration == 0 { // upstream: a period that is set is also that of unchanged reports
		c.NodeStatusReportFrequency.Duration = 5 * time.Minute
		if c.NodeStatusUpdateFrequency.Duration != 0 {
			c.NodeStatusReportFrequency = c.NodeStatusUpdateFrequency
		}
	}
	orTime(&c.NodeStatusUpdateFrequency, 10*time.Second)

	orInt(&c.NodeLeaseDurationSeconds, 40)
	orPtr(&c.NodeStatusMaxImages, 50)
	orPtr(&c.RegisterNode, true)
	orInt(&c.KubeAPIBurst, 100)
	orPtr(&c.KubeAPIQPS, 50)
	orString(&c.ContentType, "application/vnd.kubernetes.protobuf")
	orPtr(&c.EventRecordQPS, 50)
	orInt(&c.EventBurst, 100)

	orPtr(&c.OOMScoreAdj, -999)
	orPtr(&c.EnableControllerAttachDetach, true)
	orPtr(&c.LocalStorageCapacityIsolation, true)
	orTime(&c.EvictionPressureTransitionPeriod, 5*time.Minute)
	orPtr(&c.MergeDefaultEvictionSettings, false)
	orPtr(&c.FailSwapOn, true)
	if c.MaxOpenFiles == 0 {
		c.MaxOpenFiles = 1000000
	}
	// Upstream refuses to start with cgroup v1 unless this field allows it. Hosts with both versions are common where
	// Windows nodes are tried out, so here it is allowed by default.
	orPtr(&c.FailCgroupV1, false)
}

// defaultPods fills in what concerns pods in general. The policies of the managers for CPUs, memory and topology are
// those of upstream, under which these managers do nothing.
func defaultPods(c *v1beta1.KubeletConfiguration) {
	orTime(&c.RuntimeRequestTimeout, 2*time.Minute)
	orInt(&c.MaxPods, 110)
	orPtr(&c.PodPidsLimit, -1)
	orPtr(&c.CPUCFSQuota, true)
	orPtr(&c.CPUCFSQuotaPeriod, metav1.Duration{Duration: 100 * time.Millisecond})
	orPtr(&c.CrashLoopBackOff.MaxContainerRestartPeriod, metav1.Duration{Duration: 300 * time.Second})
	orString(&c.HairpinMode, "promiscuous-bridge")
	orString(&c.CPUManagerPolicy, "none")
	orTime(&c.CPUManagerReconcilePeriod, 10*time.Second)
	orString(&c.MemoryManagerPolicy, "None")
	orString(&c.TopologyManagerPolicy, "none")
	orString(&c.TopologyManagerScope, "container")
	orPtr(&c.SeccompDefault, false)
	if c.ConfigMapAndSecretChangeDetectionStrategy == "" {
		c.ConfigMapAndSecretChangeDetectionStrategy = v1beta1.WatchChangeDetectionStrategy
	}
}

// defaultImagesAndLogs fills in what concerns pulls, the removal of unused images, and the logs of containers and of
// the kubelet.
func defaultImagesAndLogs(c *v1beta1.KubeletConfiguration) {
	orPtr(&c.RegistryPullQPS, 5)
	orInt(&c.RegistryBurst, 10)
	orTime(&c.ImageMinimumGCAge, 2*time.Minute)
	orPtr(&c.ImageGCHighThresholdPercent, 85)
	orPtr(&c.ImageGCLowThresholdPercent, 80)
	if c.ImagePullCredentialsVerificationPolicy == "" {
		c.ImagePullCredentialsVerificationPolicy = v1beta1.NeverVerifyPreloadedImages
	}
	orString(&c.ContainerLogMaxSize, "10Mi")
	orPtr(&c.ContainerLogMaxFiles, 5)
	orPtr(&c.ContainerLogMaxWorkers, 1)
	orPtr(&c.ContainerLogMonitorInterval, metav1.Duration{Duration: 10 * time.Second})
	orString(&c.PodLogsDir, "/var/log/pods")
	orString(&c.Logging.Format, "text")
}

// defaultWindows and defaultLinux are the defaults that differ between the systems.
func defaultWindows(c *v1beta1.KubeletConfiguration) {
	orString(&c.ContainerRuntimeEndpoint, "npipe:////./pipe/containerd-containerd")
	// upstream's default is a file that Windows does not have, so upstream's kubelet does not start with it
	orPtr(&c.ResolverConfig, "Host")
	orPtr(&c.CgroupsPerQOS, false)
	orPtr(&c.MakeIPTablesUtilChains, false)
	defaultEviction(c, map[string]string{"memory.available": "500Mi", "nodefs.available": "10%",
		"imagefs.available": "15%"})
}

func defaultLinux(c *v1beta1.KubeletConfiguration) {
	orString(&c.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	orPtr(&c.ResolverConfig, "/etc/resolv.conf")
	orString(&c.CgroupDriver, "cgroupfs")
	orPtr(&c.CgroupsPerQOS, true)
	if c.EnforceNodeAllocatable == nil {
		c.EnforceNodeAllocatable = []string{"pods"}
	}
	orPtr(&c.MakeIPTablesUtilChains, true)
	orPtr(&c.IPTablesMasqueradeBit, 14)
	orPtr(&c.IPTablesDropBit, 15)
	defaultEviction(c, map[string]string{"memory.available": "100Mi", "nodefs.available": "10%",
		"nodefs.inodesFree": "5%",
		"imagefs.available": "15%", "imagefs.inodesFree": "5%"})
}

// defaultEviction sets the hard eviction thresholds. Thresholds in the configuration replace all defaults, unless
// MergeDefaultEvictionSettings is set.
func defaultEviction(c *v1beta1.KubeletConfiguration, defaults map[string]string) {
	if c.EvictionHard == nil {
		c.EvictionHard = defaults
		return
	}
	if *c.MergeDefaultEvictionSettings {
		for signal, threshold := range defaults {
			if _, ok := c.EvictionHard[signal]; !ok {
				c.EvictionHard[signal] = threshold
			}
		}
	}
}
