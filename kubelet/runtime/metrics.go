package runtime

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/serve"
)

// Metrics lists the runtime's own metrics of pods and containers, which have cAdvisor's names: containerd 2.2 and
// later, on Linux. It returns nil if the runtime does not know the calls. containerd takes 0.1 s for each sandbox
// beyond ten.
func (s Stats) Metrics(ctx context.Context) ([]serve.RuntimeMetric, error) {
	described, err := s.Runtime.ListMetricDescriptors(ctx, &cri.ListMetricDescriptorsRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the runtime for the kinds of its metrics: %w", err)
	}

	// Descriptions say what the values of a metric's labels are.
	kinds := map[string]*serve.RuntimeMetricKind{}
	for _, d := range described.GetDescriptors() {
		kinds[d.GetName()] = &serve.RuntimeMetricKind{Name: d.GetName(), Help: d.GetHelp(), Labels: d.GetLabelKeys()}
	}
	if len(kinds) == 0 {
		return nil, nil
	}

	list, err := s.Runtime.ListPodSandboxMetrics(ctx, &cri.ListPodSandboxMetricsRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the runtime for its metrics: %w", err)
	}

	var out []serve.RuntimeMetric
	add := func(metrics []*cri.Metric) {
		for _, m := range metrics {
			kind := kinds[m.GetName()]
			if kind == nil {
				// A metric without a description has labels that nobody knows.
				continue
			}
			one := serve.RuntimeMetric{Kind: kind, Values: m.GetLabelValues(), Value: float64(m.GetValue().GetValue()),
				Counter: m.GetMetricType() == cri.MetricType_COUNTER}
			if m.GetTimestamp() != 0 {
				one.At = time.Unix(0, m.GetTimestamp())
			}
			out = append(out, one)
		}
	}

	for _, p := range list.GetPodMetrics() {
		add(p.GetMetrics())
		for _, c := range p.GetContainerMetrics() {
			add(c.GetMetrics())
		}
	}
	return out, nil
}
