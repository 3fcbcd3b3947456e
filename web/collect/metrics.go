package collect

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	view "porthole.dev/porthole/web/model"
)

const (
	// sampled is how often metrics are read while a page is open, and sampledByAPI where each question is one to the
	// API server; without a page every third of unwatched.
	sampled, sampledByAPI = 3 * time.Second, 15 * time.Second
	// kept bounds the samples of a node: 20 minutes with a page.
	kept = 400
)

// sample reads the metrics of a node's service proxy, if it is time.
func (c *Collector) sample(ctx context.Context, n view.NodeRef) {
	c.mu.Lock()
	period := 3 * unwatched
	switch {
	case c.pages > 0 && c.o.Wait > 0:
		period = sampledByAPI
	case c.pages > 0:
		period = sampled
	}
	list := c.samples[n.Name]
	due := !c.reports[n.Name].Proxy.None && (len(list) == 0 || c.o.Now().Sub(list[len(list)-1].At) >= period)
	c.mu.Unlock()
	if !due {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	data, err := c.o.Nodes.Ask(ctx, n, Proxy, "/metrics")
	if err != nil {
		return // that the proxy does not answer is said of its status
	}
	s, err := readSample(data)
	if err != nil {
		return
	}
	s.At = c.o.Now().UTC()

	c.mu.Lock()
	defer c.mu.Unlock()
	list = append(c.samples[n.Name], s)
	if len(list) > kept {
		list = append([]view.Sample{}, list[len(list)-kept:]...)
	}
	c.samples[n.Name] = list
}

// Samples returns what was read of the metrics, by node.
func (c *Collector) Samples() map[string][]view.Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string][]view.Sample, len(c.samples))
	for name, list := range c.samples {
		out[name] = list[:len(list):len(list)]
	}
	return out
}

// readSample reads metrics in Prometheus' text format. Their names are those of proxy/health.
func readSample(text []byte) (s view.Sample, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return s, fmt.Errorf("reading metrics: %w", err)
	}
	s.Calls = map[[2]string]float64{}
	s.Seconds = map[string]float64{}

	for _, m := range families["porthole_proxy_programming_latency_seconds"].GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			s.Latency = append(s.Latency,
				view.Bucket{Seconds: b.GetUpperBound(), Count: float64(b.GetCumulativeCount())})
		}
		if last := len(s.Latency) - 1; last < 0 || !math.IsInf(s.Latency[last].Seconds, 1) {
			s.Latency = append(s.Latency,
				view.Bucket{Seconds: math.Inf(1), Count: float64(m.GetHistogram().GetSampleCount())})
		}
	}
	for _, m := range families["porthole_hns_calls_total"].GetMetric() {
		s.Calls[[2]string{label(m, "call"), label(m, "result")}] = m.GetCounter().GetValue()
	}
	for _, m := range families["porthole_hns_call_duration_seconds"].GetMetric() {
		s.Seconds[label(m, "call")] = m.GetHistogram().GetSampleSum()
	}
	return s, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
