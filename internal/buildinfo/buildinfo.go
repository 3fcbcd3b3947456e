// Package buildinfo has the metric with the version of Kubernetes that the kubelet and the service proxy stand for.
package buildinfo

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric returns the metric kubernetes_build_info. Its name and labels are those of Kubernetes' own components
// (component-base, metrics/prometheus/version). version is a version of Kubernetes, for example v1.36.3. The labels
// git_commit, git_tree_state and build_date are empty: they describe a build of Kubernetes itself.
func Metric(version string) prometheus.Collector {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubernetes_build_info",
		Help: "The version of Kubernetes whose behaviour this program has. The value is always 1.",
		ConstLabels: prometheus.Labels{
			"major": major, "minor": minor, "git_version": version, "git_commit": "", "git_tree_state": "",
			"build_date": "",
			"go_version": runtime.Version(), "compiler": runtime.Compiler,
			"platform": runtime.GOOS + "/" + runtime.GOARCH,
		},
	})

	info.Set(1)
	return info
}
