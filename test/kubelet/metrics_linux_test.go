package kubelet

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// metricPages are what Prometheus reads of a kubelet.
var metricPages = []string{"metrics", "metrics/cadvisor", "metrics/resource", "metrics/probes", "metrics/slis"}

// TestMetricNames scrapes all pages of our kubelet and of upstream's, on the same node with the same pod, with
// Prometheus' parser. A name that only one of them has must be in testdata/metrics.txt with a reason, and what is
// there must differ.
func TestMetricNames(t *testing.T) {
	w := newWorld(t, setup{limit: 4 * time.Minute})
	ours := namesShown(t, w, counted)
	w.kubelet.Stop()
	var err error
	w.kubelet, err = w.StartKubelet(w.ctx, node, true)
	must(t, err)
	theirs := namesShown(t, w, nil)

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

// namesShown returns the names of the kubelet that runs, with a pod on the node that has a probe and a volume. look is
// given the pages that show it; nil for nobody.
func namesShown(t *testing.T, w *world, look func(t *testing.T, pages map[string]string)) map[string]bool {
	t.Helper()
	p := newPod("probed", "sleep")
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10,
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/testapp", "exit", "0"}}}}
	p.Spec.Volumes = []v1.Volume{{Name: "empty", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	w.create(t, p)
	w.until(t, time.Minute, p.Name, ready)
	names, pages := scrape(t, w)
	if look != nil {
		look(t, pages)
	}
	w.remove(t, p.Name, nil)
	must(t, wait.For(w.ctx, time.Minute, "the end of the pod", func(ctx context.Context) error {
		if _, err := w.Client.CoreV1().Pods(namespace).
			Get(ctx, p.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	}))
	return names
}

// notOfPods are the pages that are about the kubelet itself.
var notOfPods = []string{"metrics", "metrics/slis"}

// counted fails unless what the kubelet has done for the pod stands on its pages, beyond the names.
func counted(t *testing.T, pages map[string]string) {
	t.Helper()
	for page, wanted := range map[string][]string{
		"metrics": {"kubelet_containers_per_pod_count_count [1-9]", `kubelet_desired_pods{static=""} 1`,
			`kubelet_active_pods{static=""} 1`, "kubelet_mirror_pods 0",
			`kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1`,
			`kubelet_run_podsandbox_duration_seconds_count{runtime_handler=""} [1-9]`,
			`kubelet_cgroup_manager_duration_seconds_count{operation_type="create"} [1-9]`,
			"kubelet_cgroup_version [12]", "kubelet_pod_status_sync_duration_seconds_count [1-9]",
			"kubelet_node_startup_duration_seconds [1-9]",
			"kubelet_node_startup_registration_duration_seconds [0-9.]*[1-9]",
			`kubelet_image_manager_ensure_image_requests_total{.*} [1-9]`,
			`kubelet_http_requests_total{long_running="false",method="GET",path="healthz",server_type="readwrite"} [1-9]`, "kubelet_first_network_pod_start_sli_duration_seconds [0-9.]*[1-9]",
			`volume_manager_total_volumes{plugin_name="kubernetes.io/empty-dir",state="actual_state_of_world"} 1`,
			`storage_operation_duration_seconds_count{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/empty-dir"} [1-9]`},
		"metrics/cadvisor": {
			`container_spec_memory_limit_bytes{container="[^"]+",id="[^"]+/pod[^"]+/[0-9a-f]{64}",image="[^"]+",name="[0-9a-f]{64}",namespace="[^"]+",pod="probed"} 6.7108864e\+07`,
			`container_processes{container="[^"]+",.*pod="probed"} [1-9]`,
			`container_threads{container="[^"]+",.*pod="probed"} [1-9]`,
			`container_sockets{container="[^"]+",.*pod="probed"} [0-9]`,
			`container_cpu_usage_seconds_total{container="",id="/[^"]*/kubepods",image="",name="",namespace="",pod="",cpu="total"} [0-9.]*[1-9]`, `container_memory_rss{container="",id="/",.*} [1-9]`},
	} {
		for _, want := range wanted {
			if !regexp.MustCompile("(?m)^" + pattern(want)).MatchString(pages[page]) {
				t.Errorf("%s lacks %s", page, want)
			}
		}
	}
}

// pattern is a line of a page as an expression: braces of labels stand for themselves.
func pattern(line string) string {
	return regexp.MustCompile(`\{([a-z_.])`).ReplaceAllString(strings.ReplaceAll(line, "} ", `\} `), `\{$1`)
}

// scrape reads all pages until they show the pod, and returns "page name" of each family of series, and the pages. The
// health is asked for first, which the page about it counts.
func scrape(t *testing.T, w *world) (names map[string]bool, pages map[string]string) {
	t.Helper()
	must(t, wait.For(w.ctx, time.Minute, "figures of the pod on each page", func(context.Context) error {
		names, pages = map[string]bool{}, map[string]string{}
		if code, text := w.call(t, http.MethodGet, "healthz"); code != http.StatusOK {
			return fmt.Errorf("healthz: %d %s", code, text)
		}

		for _, page := range metricPages {
			code, text := w.call(t, http.MethodGet, page)
			if code != http.StatusOK {
				return fmt.Errorf("%s: %d", page, code)
			}
			pages[page] = text
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
	return names, pages
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
