package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"porthole.dev/porthole/internal/apiconn"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/node/kubeproxy"
	"porthole.dev/porthole/node/routes"
)

// TestMetrics: the page of metrics has those that the programs register, and what test/kubelet knows to differ from
// upstream's kubelet.
func TestMetrics(t *testing.T) {
	client := prometheus.NewRegistry()
	if err := apiconn.RegisterMetrics(client); err != nil {
		t.Fatal(err)
	}
	kubelet := meter.New(meter.Options{})
	countNothing(kubelet)

	var b strings.Builder
	b.WriteString("# Metrics\n\n" + written("what the programs register") +
		"The pages of metrics of a node, each in Prometheus' text format, which also says the type of each metric. Names that end with\n" +
		"`_total` are counters. Names that upstream's program has too mean the same there, with the same labels and buckets. Go's own\n" +
		"metrics (`go_*`, `process_*`) are on the pages as well and are not listed here.\n\n" +
		"[Watch a cluster](../use/watch.md) says how Prometheus reads them, and has alerts and a dashboard.\n")
	for _, part := range []struct {
		title, where string
		metrics      prometheus.Collector
	}{
		{"kubelet", "`https://NODE:10250/metrics`, by authorised clients.", kubelet.Registry},
		{"kubelet: probes", "`https://NODE:10250/metrics/probes`.", kubelet.Probes},
		{"kube-proxy on Windows nodes", "`http://127.0.0.1:10249/metrics` of the node (`--metrics-bind-address`).", kubeproxy.Described()},
		{"routes", "`http://127.0.0.1:10261/metrics` of the node (`porthole routes --bind`).", routes.Described()},
		{"requests to the API server", "On the pages of kubelet, kube-proxy and routes.", client},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | labels | meaning |\n|---|---|---|\n", part.title, part.where)
		for _, m := range described(t, part.metrics) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, m.labels, cell(sentence(m.help)))
		}
	}
	b.WriteString(differences(t))
	page(t, "reference/metrics.md", b.String())
}

// countNothing has a meter register what it counts at each scrape, by its methods Count…, each of which is given a
// function.
func countNothing(m *meter.Meter) {
	v := reflect.ValueOf(m)
	for i := range v.NumMethod() {
		method := v.Method(i)
		if !strings.HasPrefix(v.Type().Method(i).Name, "Count") {
			continue
		}
		var args []reflect.Value
		for j := range method.Type().NumIn() {
			kind := method.Type().In(j)
			args = append(args, reflect.MakeFunc(kind, func([]reflect.Value) (zero []reflect.Value) {
				for k := range kind.NumOut() {
					zero = append(zero, reflect.Zero(kind.Out(k)))
				}
				return zero
			}))
		}
		method.Call(args)
	}
}

type metric struct{ name, labels, help string }

// descString matches the text of a prometheus.Desc, whose fields have no other access.
var descString = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*)", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// described returns the metrics of a collector, sorted, without those of Go and of the process.
func described(t *testing.T, c prometheus.Collector) (list []metric) {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1000)
	c.Describe(descs)
	close(descs)

	for d := range descs {
		m := descString.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s does not look as expected", d)
		}
		name, help, fixed, labels := m[1], m[2], m[3], m[4]
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		for _, pair := range strings.Split(fixed, ",") {
			if label, _, ok := strings.Cut(pair, "="); ok {
				labels = strings.Trim(labels+","+label, ",")
			}
		}
		if labels != "" {
			labels = "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
		}
		list = append(list, metric{name, labels, strings.ReplaceAll(help, `\"`, `"`)})
	}

	slices.SortFunc(list, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(list)
}

// differences is a table of the metrics that only one of both kubelets has, from the list of test/kubelet.
func differences(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "test/kubelet/testdata/metrics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\n## Beside upstream's kubelet\n\n`/metrics/resource` and `/metrics/cadvisor` have upstream's names and labels, which the " +
		"documentation of Kubernetes lists. A test\ncompares the pages of both kubelets on one Linux node. These names differ:\n\n" +
		"| page | metrics | only | why |\n|---|---|---|---|\n")
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.SplitN(line, " ", 4)
		if only, ok := map[string]string{"-": "upstream", "+": "Porthole"}[fields[0]]; ok && len(fields) == 4 {
			fmt.Fprintf(&b, "| `/%s` | `%s` | %s | %s |\n", fields[1], fields[2], only, cell(fields[3]))
		}
	}
	return b.String()
}
