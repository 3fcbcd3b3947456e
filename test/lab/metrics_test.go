package lab

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"porthole.dev/porthole/internal/testkit/wait"
)

// metricsWait is how long figures of a new pod may take: two reads of each kubelet, 10 s apart, and those of the
// runtime before.
const metricsWait = 90 * time.Second

// TestTop: kubectl top shows every node, and a pod with its containers on a node of each system. What was used never
// becomes less.
//
// Row 1.86.
func TestTop(t *testing.T) {
	var manifests []string
	for _, system := range systems {
		manifests = append(manifests, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: top-%[1]s}
spec:
  nodeSelector: {kubernetes.io/os: %[1]s}
  terminationGracePeriodSeconds: 0
  containers:
  - {name: one, image: porthole/testapp:1, args: [hog, "30"]}
  - {name: two, image: porthole/testapp:1, args: [hog, "60"]}
`, system))
	}
	apply(t, strings.Join(manifests, "---\n"))
	var nodes []string
	for _, system := range systems {
		nodes = append(nodes, waitPod(t, "top-"+system, podWait, isReady).Spec.NodeName)
	}

	used := map[string]float64{}
	wait.NoError(t, metricsWait, "figures of both pods", func() error {
		for _, node := range nodes {
			if err := neverLess(node, used); err != nil {
				t.Fatal(err)
			}
		}
		return topShows(systems)
	})
	for _, node := range nodes {
		if err := neverLess(node, used); err != nil {
			t.Error(err)
		}
	}

	for i, system := range systems {
		cadvisorShows(t, nodes[i], "top-"+system)
	}

	out := kubectl(t, "top", "nodes", "--no-headers")
	for _, n := range readStatus(t).Nodes {
		if line := lineOf(out, n.Name); len(line) < 5 || !strings.HasSuffix(line[1], "m") ||
			!strings.HasSuffix(line[3], "Mi") {
			t.Errorf("node %s in %q", n.Name, out)
		}
	}
}

// cadvisorShows fails unless Prometheus' parser reads a node's page about containers, and the page shows both
// containers of a pod with the memory that they hold.
func cadvisorShows(t *testing.T, node, pod string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(
		strings.NewReader(kubectl(t, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics/cadvisor")))
	if err != nil {
		t.Fatalf("node %s: %v", node, err)
	}

	holds := map[string]float64{}
	for _, m := range found["container_memory_working_set_bytes"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["pod"] == pod {
			holds[labels["container"]] = m.GetGauge().GetValue()
		}
	}
	if holds["one"] < 30<<20 || holds["two"] < 60<<20 || found["container_cpu_usage_seconds_total"] == nil {
		t.Errorf("node %s: the containers of pod %s hold %v", node, pod, holds)
	}
	t.Logf("node %s: %d names, pod %s holds %v", node, len(found), pod, holds)
}

// topShows returns nil if kubectl top shows both containers of each pod with the memory that they hold.
func topShows(systems []string) error {
	for _, system := range systems {
		out, err := kubectlErr("top", "pod", "top-"+system, "--containers", "--no-headers")
		if err != nil {
			return err
		}
		for name, least := range map[string]int{"one": 30, "two": 60} {
			line := lineOf(out, "top-"+system+" "+name)
			if len(line) < 4 {
				return fmt.Errorf("%s has no container %s: %q", system, name, out)
			}
			if memory, err := strconv.Atoi(strings.TrimSuffix(line[3], "Mi")); err != nil || memory < least ||
				memory > 4*least+100 {
				return fmt.Errorf("container %s on %s holds %d MiB, and has %s", name, system, least, line[3])
			}
		}
	}
	return nil
}

// lineOf returns the words of the line that begins with these words.
func lineOf(text, begin string) []string {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); strings.HasPrefix(strings.Join(words, " ")+" ", begin+" ") {
			return words
		}
	}
	return nil
}

// neverLess reads what metrics-server reads of a kubelet, and returns an error if a counter is less than it was. used
// has the values by node and series.
func neverLess(node string, used map[string]float64) error {
	out, err := kubectlErr("get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics/resource")
	if err != nil {
		return nil // a kubelet on a busy machine: the next time
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 || !strings.Contains(words[0], "_seconds_total") {
			continue
		}
		now, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", words[0], node, err)
		}
		if before := used[node+words[0]]; now < before {
			return fmt.Errorf("%s of %s was %v and is %v", words[0], node, before, now)
		}
		used[node+words[0]] = now
	}
	return nil
}
