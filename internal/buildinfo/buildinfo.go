// Package buildinfo has the metric by which a program of Kubernetes says what it is.
package buildinfo

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric returns kubernetes_build_info, with the name and the labels that components of Kubernetes have it with
// (component-base, metrics/prometheus/version). version is that of Kubernetes, for example v1.36.3. What only a build of
// Kubernetes' own has is empty: commit, state of the tree, date.
func Metric(version string) prometheus.Collector {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "The version of Kubernetes whose behaviour this program has. The value is always 1.",
		ConstLabels: prometheus.Labels{
			"major": major, "minor": minor, "git_version": version, "git_commit": "", "git_tree_state": "", "build_date": "",
			"go_version": runtime.Version(), "compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH,
		},
	})

	info.Set(1)
	return info
}
