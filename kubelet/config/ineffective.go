package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1beta1 "k8s.io/kubelet/config/v1beta1"
)

// ineffective are the settings that this kubelet reads and does not act on, by their names in Go, each with what it
// does instead.
var ineffective = map[string]string{
	"CgroupsPerQOS":                             "pods always have cgroups of their own, below those of their classes",
	"ContentType":                               "requests are in protobuf, or JSON for kinds that have none",
	"EnableControllerAttachDetach":              "the controller manager attaches volumes",
	"HairpinMode":                               "the CNI plugin decides, as with upstream's kubelet",
	"IPTablesDropBit":                           "no rule of the kubelet marks packets, as with upstream's",
	"IPTablesMasqueradeBit":                     "no rule of the kubelet marks packets, as with upstream's",
	"KernelMemcgNotification":                   "memory is measured at intervals",
	"MemoryReservationPolicy":                   "the feature MemoryQoS, which is alpha, is not there",
	"MemoryThrottlingFactor":                    "the feature MemoryQoS, which is alpha, is not there",
	"QOSReserved":                               "the feature QOSReserved, which is alpha, is not there",
	"RunOnce":                                   "it is refused, as upstream does",
	"ShowHiddenMetricsForVersion":               "no metrics are hidden",
	"StreamingConnectionIdleTimeout":            "the runtime ends connections that are idle (containerd: stream_idle_timeout)",
	"SyncFrequency":                             "pods are looked at when something changes, not at intervals",
	"Tracing":                                   "the kubelet sends no traces",
	"VolumeStatsAggPeriod":                      "figures of volumes are at most a minute old",
	"ConfigMapAndSecretChangeDetectionStrategy": "objects are watched",
}

// withoutEffect returns a warning for each setting of c that is ineffective and not at its default, sorted.
func withoutEffect(c *v1beta1.KubeletConfiguration, windows bool) (warnings []string) {
	plain := v1beta1.KubeletConfiguration{}
	setDefaults(&plain, windows)
	have := reflect.ValueOf(*c)
	usual := reflect.ValueOf(plain)
	for name, instead := range ineffective {
		field, _ := have.Type().FieldByName(name)
		if !reflect.DeepEqual(have.FieldByIndex(field.Index).Interface(), usual.FieldByIndex(field.Index).Interface()) {
			json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			warnings = append(warnings, fmt.Sprintf("%s: without effect: %s", json, instead))
		}
	}
	if c.Logging.Format != usual.FieldByName("Logging").FieldByName("Format").String() {
		warnings = append(warnings, "logging.format: without effect: the log is text")
	}
	slices.Sort(warnings)
	return warnings
}
