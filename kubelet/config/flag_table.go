package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The flags of upstream's kubelet 1.36.3 that set fields of its configuration, grouped by the type of their value. Each
// table has the name of the flag and where its field is.
var texts = map[string]func(*cfg) *string{
	"pod-manifest-path":          func(c *cfg) *string { return &c.StaticPodPath },
	"manifest-url":               func(c *cfg) *string { return &c.StaticPodURL },
	"address":                    func(c *cfg) *string { return &c.Address },
	"container-runtime-endpoint": func(c *cfg) *string { return &c.ContainerRuntimeEndpoint },
	"image-service-endpoint":     func(c *cfg) *string { return &c.ImageServiceEndpoint },
	"client-ca-file":             func(c *cfg) *string { return &c.Authentication.X509.ClientCAFile },
	"tls-cert-file":              func(c *cfg) *string { return &c.TLSCertFile },
	"tls-private-key-file":       func(c *cfg) *string { return &c.TLSPrivateKeyFile },
	"tls-min-version":            func(c *cfg) *string { return &c.TLSMinVersion },
	"healthz-bind-address":       func(c *cfg) *string { return &c.HealthzBindAddress },
	"cluster-domain":             func(c *cfg) *string { return &c.ClusterDomain },
	"volume-plugin-dir":          func(c *cfg) *string { return &c.VolumePluginDir },
	"kubelet-cgroups":            func(c *cfg) *string { return &c.KubeletCgroups },
	"system-cgroups":             func(c *cfg) *string { return &c.SystemCgroups },
	"provider-id":                func(c *cfg) *string { return &c.ProviderID },
	"cgroup-driver":              func(c *cfg) *string { return &c.CgroupDriver },
	"cgroup-root":                func(c *cfg) *string { return &c.CgroupRoot },
	"cpu-manager-policy":         func(c *cfg) *string { return &c.CPUManagerPolicy },
	"memory-manager-policy":      func(c *cfg) *string { return &c.MemoryManagerPolicy },
	"topology-manager-policy":    func(c *cfg) *string { return &c.TopologyManagerPolicy },
	"topology-manager-scope":     func(c *cfg) *string { return &c.TopologyManagerScope },
	"hairpin-mode":               func(c *cfg) *string { return &c.HairpinMode },
	"pod-cidr":                   func(c *cfg) *string { return &c.PodCIDR },
	"container-log-max-size":     func(c *cfg) *string { return &c.ContainerLogMaxSize },
	"kube-api-content-type":      func(c *cfg) *string { return &c.ContentType },
	"reserved-cpus":              func(c *cfg) *string { return &c.ReservedSystemCPUs },
	"system-reserved-cgroup":     func(c *cfg) *string { return &c.SystemReservedCgroup },
	"kube-reserved-cgroup":       func(c *cfg) *string { return &c.KubeReservedCgroup },
}

var numbers = map[string]func(*cfg) *int32{
	"port":                          func(c *cfg) *int32 { return &c.Port },
	"read-only-port":                func(c *cfg) *int32 { return &c.ReadOnlyPort },
	"registry-burst":                func(c *cfg) *int32 { return &c.RegistryBurst },
	"event-burst":                   func(c *cfg) *int32 { return &c.EventBurst },
	"max-pods":                      func(c *cfg) *int32 { return &c.MaxPods },
	"pods-per-core":                 func(c *cfg) *int32 { return &c.PodsPerCore },
	"kube-api-burst":                func(c *cfg) *int32 { return &c.KubeAPIBurst },
	"eviction-max-pod-grace-period": func(c *cfg) *int32 { return &c.EvictionMaxPodGracePeriod },
}

var optionalNumbers = map[string]func(*cfg) **int32{
	"registry-qps":            func(c *cfg) **int32 { return &c.RegistryPullQPS },
	"event-qps":               func(c *cfg) **int32 { return &c.EventRecordQPS },
	"healthz-port":            func(c *cfg) **int32 { return &c.HealthzPort },
	"oom-score-adj":           func(c *cfg) **int32 { return &c.OOMScoreAdj },
	"image-gc-high-threshold": func(c *cfg) **int32 { return &c.ImageGCHighThresholdPercent },
	"image-gc-low-threshold":  func(c *cfg) **int32 { return &c.ImageGCLowThresholdPercent },
	"container-log-max-files": func(c *cfg) **int32 { return &c.ContainerLogMaxFiles },
	"node-status-max-images":  func(c *cfg) **int32 { return &c.NodeStatusMaxImages },
	"kube-api-qps":            func(c *cfg) **int32 { return &c.KubeAPIQPS },
}

var longNumbers = map[string]func(*cfg, int64){
	"pod-max-pids":   func(c *cfg, n int64) { c.PodPidsLimit = &n },
	"max-open-files": func(c *cfg, n int64) { c.MaxOpenFiles = n },
}

var switches = map[string]func(*cfg, bool){
	"enable-server":                    func(c *cfg, b bool) { c.EnableServer = &b },
	"fail-swap-on":                     func(c *cfg, b bool) { c.FailSwapOn = &b },
	"fail-cgroupv1":                    func(c *cfg, b bool) { c.FailCgroupV1 = &b },
	"anonymous-auth":                   func(c *cfg, b bool) { c.Authentication.Anonymous.Enabled = &b },
	"authentication-token-webhook":     func(c *cfg, b bool) { c.Authentication.Webhook.Enabled = &b },
	"rotate-certificates":              func(c *cfg, b bool) { c.RotateCertificates = b },
	"rotate-server-certificates":       func(c *cfg, b bool) { c.ServerTLSBootstrap = b },
	"enable-debugging-handlers":        func(c *cfg, b bool) { c.EnableDebuggingHandlers = &b },
	"contention-profiling":             func(c *cfg, b bool) { c.EnableContentionProfiling = b },
	"cgroups-per-qos":                  func(c *cfg, b bool) { c.CgroupsPerQOS = &b },
	"runonce":                          func(c *cfg, b bool) { c.RunOnce = b },
	"cpu-cfs-quota":                    func(c *cfg, b bool) { c.CPUCFSQuota = &b },
	"enable-controller-attach-detach":  func(c *cfg, b bool) { c.EnableControllerAttachDetach = &b },
	"make-iptables-util-chains":        func(c *cfg, b bool) { c.MakeIPTablesUtilChains = &b },
	"kernel-memcg-notification":        func(c *cfg, b bool) { c.KernelMemcgNotification = b },
	"local-storage-capacity-isolation": func(c *cfg, b bool) { c.LocalStorageCapacityIsolation = &b },
	"serialize-image-pulls":            func(c *cfg, b bool) { c.SerializeImagePulls = &b },
	"protect-kernel-defaults":          func(c *cfg, b bool) { c.ProtectKernelDefaults = b },
	"register-node":                    func(c *cfg, b bool) { c.RegisterNode = &b },
	"seccomp-default":                  func(c *cfg, b bool) { c.SeccompDefault = &b },
}

func period(at func(*cfg) *metav1.Duration) func(*cfg, time.Duration) {
	return func(c *cfg, d time.Duration) { at(c).Duration = d }
}

var durations = map[string]func(*cfg, time.Duration){
	"sync-frequency": period(func(c *cfg) *metav1.Duration { return &c.SyncFrequency }),
	"file-check-frequency": period(func(c *cfg) *metav1.Duration {
		return &c.FileCheckFrequency
	}),
	"http-check-frequency": period(func(c *cfg) *metav1.Duration {
		return &c.HTTPCheckFrequency
	}),
	"authentication-token-webhook-cache-ttl": period(func(c *cfg) *metav1.Duration {
		return &c.Authentication.Webhook.CacheTTL
	}),
	"authorization-webhook-cache-authorized-ttl": period(func(c *cfg) *metav1.Duration {
		return &c.Authorization.Webhook.CacheAuthorizedTTL
	}),
	"authorization-webhook-cache-unauthorized-ttl": period(func(c *cfg) *metav1.Duration {
		return &c.Authorization.Webhook.CacheUnauthorizedTTL
	}),
	"streaming-connection-idle-timeout": period(func(c *cfg) *metav1.Duration {
		return &c.StreamingConnectionIdleTimeout
	}),
	"node-status-update-frequency": period(func(c *cfg) *metav1.Duration {
		return &c.NodeStatusUpdateFrequency
	}),
	"minimum-image-ttl-duration": period(func(c *cfg) *metav1.Duration {
		return &c.ImageMinimumGCAge
	}),
	"volume-stats-agg-period": period(func(c *cfg) *metav1.Duration {
		return &c.VolumeStatsAggPeriod
	}),
	"cpu-manager-reconcile-period": period(func(c *cfg) *metav1.Duration {
		return &c.CPUManagerReconcilePeriod
	}),
	"runtime-request-timeout": period(func(c *cfg) *metav1.Duration {
		return &c.RuntimeRequestTimeout
	}),
	"eviction-pressure-transition-period": period(func(c *cfg) *metav1.Duration {
		return &c.EvictionPressureTransitionPeriod
	}),
	"cpu-cfs-quota-period": func(c *cfg, d time.Duration) {
		c.CPUCFSQuotaPeriod = &metav1.Duration{Duration: d}
	},
}

var lists = map[string]func(*cfg) *[]string{
	"cluster-dns":              func(c *cfg) *[]string { return &c.ClusterDNS },
	"tls-cipher-suites":        func(c *cfg) *[]string { return &c.TLSCipherSuites },
	"enforce-node-allocatable": func(c *cfg) *[]string { return &c.EnforceNodeAllocatable },
	"allowed-unsafe-sysctls":   func(c *cfg) *[]string { return &c.AllowedUnsafeSysctls },
}

// maps are flags that take a list of pairs; sign stands between the key and the value of a pair.
var maps = map[string]struct {
	at   func(*cfg) *map[string]string
	sign string
}{
	"eviction-hard":              {func(c *cfg) *map[string]string { return &c.EvictionHard }, "<"},
	"eviction-soft":              {func(c *cfg) *map[string]string { return &c.EvictionSoft }, "<"},
	"eviction-soft-grace-period": {func(c *cfg) *map[string]string { return &c.EvictionSoftGracePeriod }, "="},
	"eviction-minimum-reclaim":   {func(c *cfg) *map[string]string { return &c.EvictionMinimumReclaim }, "="},
	"system-reserved":            {func(c *cfg) *map[string]string { return &c.SystemReserved }, "="},
	"kube-reserved":              {func(c *cfg) *map[string]string { return &c.KubeReserved }, "="},
	"qos-reserved":               {func(c *cfg) *map[string]string { return &c.QOSReserved }, "="},
	"cpu-manager-policy-options": {func(c *cfg) *map[string]string { return &c.CPUManagerPolicyOptions }, "="},
	"topology-manager-policy-options": {func(c *cfg) *map[string]string { return &c.TopologyManagerPolicyOptions },
		"="},
}
