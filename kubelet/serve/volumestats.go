package serve

import (
	"github.com/prometheus/client_golang/prometheus"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// claimFigures are upstream's metrics about the volumes of claims (pkg/kubelet/metrics/collectors/volume_stats.go),
// each read from the statistics.
var claimFigures = []struct {
	desc *prometheus.Desc
	of   func(*statsapi.VolumeStats) *uint64
}{
	{claimDesc("capacity_bytes", "Capacity in bytes of the volume"),
		func(v *statsapi.VolumeStats) *uint64 { return v.CapacityBytes }},
	{claimDesc("available_bytes", "Number of available bytes in the volume"),
		func(v *statsapi.VolumeStats) *uint64 { return v.AvailableBytes }},
	{claimDesc("used_bytes", "Number of used bytes in the volume"),
		func(v *statsapi.VolumeStats) *uint64 { return v.UsedBytes }},
	{claimDesc("inodes", "Maximum number of inodes in the volume"),
		func(v *statsapi.VolumeStats) *uint64 { return v.Inodes }},
	{claimDesc("inodes_free", "Number of free inodes in the volume"),
		func(v *statsapi.VolumeStats) *uint64 { return v.InodesFree }},
	{claimDesc("inodes_used", "Number of used inodes in the volume"),
		func(v *statsapi.VolumeStats) *uint64 { return v.InodesUsed }},
	{claimDesc("health_status_abnormal",
		"Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, 0 indicates volume is healthy"),
		func(v *statsapi.VolumeStats) *uint64 {
			if v.VolumeHealthStats == nil {
				return nil
			}
			if v.VolumeHealthStats.Abnormal {
				return number(1)
			}
			return number(0)
		}},
}

// claimDesc has the labels of all metrics of claims.
func claimDesc(name, help string) *prometheus.Desc {
	return desc("kubelet_volume_stats_"+name, help, "namespace", "persistentvolumeclaim")
}

// claimMetrics are the metrics about the volumes of claims, from the newest statistics. It takes none: a driver may be
// slow.
type claimMetrics struct{ stats *sampler }

// Describe sends nothing: which metrics there are depends on the pods.
func (claimMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends one series of each kind for each claim, however many pods use it.
func (m claimMetrics) Collect(out chan<- prometheus.Metric) {
	all, ok := m.stats.summary.newest()
	if !ok {
		return
	}

	// Pods that share a claim have the same figures of it.
	done := map[statsapi.PVCReference]bool{}
	for i := range all.Pods {
		for j := range all.Pods[i].VolumeStats {
			v := &all.Pods[i].VolumeStats[j]
			if v.PVCRef == nil || done[*v.PVCRef] {
				continue
			}
			done[*v.PVCRef] = true
			for _, f := range claimFigures {
				if n := f.of(v); n != nil {
					out <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, float64(*n), v.PVCRef.Namespace,
						v.PVCRef.Name)
				}
			}
		}
	}
}

// withOwn adds the server's metrics to others: about the volumes of claims and about requests.
func withOwn(s *Server, others prometheus.Gatherer) prometheus.Gatherer {
	own := prometheus.NewRegistry()
	own.MustRegister(claimMetrics{s.stats}, s.requests.total, s.requests.took, s.requests.open, s.requests.sockets)
	return prometheus.Gatherers{others, own}
}
