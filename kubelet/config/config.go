// Package config reads a KubeletConfiguration file and fills in what it leaves out.
package config

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Load reads the file at path; "" gives the defaults. Fields that nobody knows come back as warnings, one text each.
// windows chooses the defaults of that system.
func Load(path string, windows bool) (cfg *v1beta1.KubeletConfiguration, warnings []string, err error) {
	cfg = &v1beta1.KubeletConfiguration{}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the kubelet's configuration: %w", err)
		}
		if warnings, err = decode(data, cfg); err != nil {
			return nil, nil, fmt.Errorf("reading the kubelet's configuration %s: %w", path, err)
		}
	}
	setDefaults(cfg, windows)
	return cfg, warnings, nil
}

func decode(data []byte, cfg *v1beta1.KubeletConfiguration) (warnings []string, err error) {
	text, err := yaml.YAMLToJSON(data) // names the line of a mistake
	if err != nil {
		return nil, err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	if kind.Kind != "KubeletConfiguration" || kind.APIVersion != v1beta1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("it is a %q of %q, not a KubeletConfiguration of %s", kind.Kind, kind.APIVersion, v1beta1.SchemeGroupVersion)
	}
	strict, err := strictjson.UnmarshalStrict(text, cfg)
	if err != nil {
		return nil, err
	}
	for _, w := range strict {
		warnings = append(warnings, w.Error())
	}
	return warnings, nil
}

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

func setDefaults(c *v1beta1.KubeletConfiguration, windows bool) {
	orString(&c.Address, "0.0.0.0")
	orInt(&c.Port, 10250)
	orPtr(&c.HealthzPort, 10248)
	orString(&c.HealthzBindAddress, "127.0.0.1")
	orTime(&c.SyncFrequency, time.Minute)
	orTime(&c.FileCheckFrequency, 20*time.Second)
	if c.NodeStatusReportFrequency.Duration == 0 {
		c.NodeStatusReportFrequency.Duration = 5 * time.Minute
		if c.NodeStatusUpdateFrequency.Duration != 0 {
			c.NodeStatusReportFrequency = c.NodeStatusUpdateFrequency
		}
	}
	orTime(&c.NodeStatusUpdateFrequency, 10*time.Second)
	orInt(&c.NodeLeaseDurationSeconds, 40)
	orTime(&c.RuntimeRequestTimeout, 2*time.Minute)
	orInt(&c.MaxPods, 110)
	orInt(&c.KubeAPIBurst, 100)
	orPtr(&c.KubeAPIQPS, 50)
	orPtr(&c.CPUCFSQuota, true)
	orPtr(&c.CgroupsPerQOS, true)
	orPtr(&c.RegisterNode, true)
	orPtr(&c.EnableServer, true)
	orPtr(&c.Authentication.Anonymous.Enabled, false)
	orPtr(&c.Authentication.Webhook.Enabled, true)
	orTime(&c.Authentication.Webhook.CacheTTL, 2*time.Minute)
	orTime(&c.Authorization.Webhook.CacheAuthorizedTTL, 5*time.Minute)
	orTime(&c.Authorization.Webhook.CacheUnauthorizedTTL, 30*time.Second)
	if c.Authorization.Mode == "" {
		c.Authorization.Mode = v1beta1.KubeletAuthorizationModeWebhook
	}
	// Upstream refuses cgroup v1 unless told otherwise. Hybrid hosts are common where Windows nodes are tried out, so
	// here the absence of the field allows it.
	orPtr(&c.FailCgroupV1, false)
	orPtr(&c.FailSwapOn, true)
	orString(&c.PodLogsDir, "/var/log/pods")
	orString(&c.CgroupDriver, "cgroupfs")
	if windows {
		orString(&c.ContainerRuntimeEndpoint, "npipe:////./pipe/containerd-containerd")
		orPtr(&c.ResolverConfig, "")
		if c.EvictionHard == nil {
			c.EvictionHard = map[string]string{"memory.available": "500Mi", "nodefs.available": "10%", "imagefs.available": "15%"}
		}
		return
	}
	orString(&c.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	orPtr(&c.ResolverConfig, "/etc/resolv.conf")
	if c.EvictionHard == nil {
		c.EvictionHard = map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
			"imagefs.available": "15%", "imagefs.inodesFree": "5%"}
	}
}
