package buildinfo

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestMetric: the labels are those by which dashboards show the version of a component.
func TestMetric(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(Metric("v1.36.3"))
	families, err := r.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "kubernetes_build_info" {
		t.Fatalf("%v, %v", families, err)
	}

	labels := map[string]string{}
	for _, l := range families[0].Metric[0].Label {
		labels[l.GetName()] = l.GetValue()
	}
	if labels["major"] != "1" || labels["minor"] != "36" || labels["git_version"] != "v1.36.3" || len(labels) != 9 {
		t.Errorf("labels %v", labels)
	}
}
