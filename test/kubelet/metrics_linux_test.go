package kubelet

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// metricPages are what Prometheus reads of a kubelet.
var metricPages = []string{"metrics", "metrics/cadvisor", "metrics/resource", "metrics/probes", "metrics/slis"}

// TestMetricNames scrapes all pages of our kubelet and of upstream's, on the same node with the same pod, with Prometheus' parser. A name that
// only one of them has must be in testdata/metrics.txt with a reason, and what is there must differ.
func TestMetricNames(t *testing.T) {
	w := newWorld(t, setup{limit: 4 * time.Minute})
	ours := namesShown(t, w)
	w.kubelet.Stop()
	var err error
	w.kubelet, err = w.StartKubelet(w.ctx, node, true)
	must(t, err)
	theirs := namesShown(t, w)

	listed := readMetricList(t, "testdata/metrics.txt")
	used := map[string]bool{}
	for _, side := range []struct {
		mark      string
		one, rest map[string]bool
	}{{"-", theirs, ours}, {"+", ours, theirs}} {
		for _, name := range slices.Sorted(maps.Keys(side.one)) {
			if side.rest[name] {
				continue
			}
			pattern := cmp.Or(matching(listed, side.mark+" "+name), matching(listed, side.mark+"? "+name))
			if used[pattern] = true; pattern == "" {
				t.Errorf("%s %s has no reason in testdata/metrics.txt", side.mark, name)
			}
		}
	}
	for pattern := range listed {
		if !used[pattern] && !strings.Contains(pattern, "?") {
			t.Errorf("testdata/metrics.txt: %q is about nothing that differs", pattern)
		}
	}
	t.Logf("%d names of ours, %d of upstream's", len(ours), len(theirs))
}

// namesShown returns the names of the kubelet that runs, with a pod on the node that has a probe.
func namesShown(t *testing.T, w *world) map[string]bool {
	t.Helper()
	p := newPod("probed", "sleep")
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/testapp", "exit", "0"}}}}
	w.create(t, p)
	w.until(t, time.Minute, p.Name, ready)
	names := scrape(t, w)
	w.remove(t, p.Name, nil)
	must(t, wait.For(w.ctx, time.Minute, "the end of the pod", func(ctx context.Context) error {
		if _, err := w.Client.CoreV1().Pods(namespace).Get(ctx, p.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	}))
	return names
}

// notOfPods are the pages that are about the kubelet itself.
var notOfPods = []string{"metrics", "metrics/slis"}

// scrape reads all pages until they show the pod, and returns "page name" of each family of series. The health is asked for first, which the page
// about it counts.
func scrape(t *testing.T, w *world) map[string]bool {
	t.Helper()
	var names map[string]bool
	must(t, wait.For(w.ctx, time.Minute, "figures of the pod on each page", func(context.Context) error {
		names = map[string]bool{}
		if code, text := w.call(t, http.MethodGet, "healthz"); code != http.StatusOK {
			return fmt.Errorf("healthz: %d %s", code, text)
		}

		for _, page := range metricPages {
			code, text := w.call(t, http.MethodGet, page)
			if code != http.StatusOK {
				return fmt.Errorf("%s: %d", page, code)
			}
			found, err := families(text)
			if err != nil {
				t.Fatalf("%s: %v", page, err)
			}
			for name := range found {
				names[page+" "+name] = true
			}
			if !slices.Contains(notOfPods, page) && !strings.Contains(text, `pod="probed"`) {
				return fmt.Errorf("%s does not show the pod yet", page)
			}
		}
		return nil
	}))
	return names
}

// families parses one page.
func families(text string) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// readMetricList reads the lines of testdata/metrics.txt: reasons by "mark page name".
func readMetricList(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	out := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 4 {
			t.Fatalf("%s: %q has no reason", file, line)
		}
		out[strings.Join(words[:3], " ")] = strings.Join(words[3:], " ")
	}
	return out
}

// matching returns the pattern of the list that a difference fits, the longest first.
func matching(list map[string]string, difference string) string {
	for _, pattern := range slices.SortedFunc(maps.Keys(list), func(a, b string) int { return len(b) - len(a) }) {
		begin, open := strings.CutSuffix(pattern, "*")
		if pattern == difference || open && strings.HasPrefix(difference, begin) {
			return pattern
		}
	}
	return ""
}
