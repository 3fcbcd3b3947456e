package meter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/stats"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"net/http/httptest"
)

func text(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w.Body.String()
}

func TestOperation(t *testing.T) {
	for method, want := range map[string]string{"/runtime.v1.RuntimeService/RunPodSandbox": "run_podsandbox",
		"/runtime.v1.RuntimeService/PodSandboxStatus":         "podsandbox_status",
		"/runtime.v1.RuntimeService/ListPodSandboxStats":      "list_podsandbox_stats",
		"/runtime.v1.RuntimeService/ExecSync":                 "exec_sync",
		"/runtime.v1.RuntimeService/PortForward":              "port_forward",
		"/runtime.v1.RuntimeService/UpdateContainerResources": "update_container",
		"/runtime.v1.ImageService/ImageFsInfo":                "image_fs_info",
		"/runtime.v1.RuntimeService/Version":                  "version",
		"/runtime.v1.RuntimeService/ReopenContainerLog":       "reopen_container_log", "": ""} {
		if got := Operation(method); got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
}

// countCall reports a call as gRPC does.
func countCall(m *Meter, method string, err error) {
	c := Calls{m}
	ctx := c.TagRPC(context.Background(), &stats.RPCTagInfo{FullMethodName: method})
	c.HandleRPC(ctx, &stats.Begin{})
	c.HandleRPC(ctx, &stats.End{BeginTime: time.Now().Add(-time.Second), EndTime: time.Now(), Error: err})
}

// TestNames: the series exist that upstream's tests and dashboards read.
func TestNames(t *testing.T) {
	m := New(Options{NodeName: "n1"})
	m.CountRunning(func() (int, map[string]int) { return 3, map[string]int{"running": 4, "exited": 1} })
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u",
		CreationTimestamp: metav1.NewTime(time.Now().Add(-2 * time.Second))},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	withInit := pod.DeepCopy()
	withInit.Spec.InitContainers = []v1.Container{{Name: "i"}}

	countCall(m, "/runtime.v1.RuntimeService/StopContainer", errors.New("refused"))
	m.Sandbox(errors.New("x"))
	m.Container(pod, "c", "", false)
	m.Container(withInit, "i", "ErrImagePull", true)
	m.Running(pod, time.Now().Add(-time.Second), time.Now(), false)
	m.Running(withInit, time.Now().Add(-time.Second), time.Now(), false)
	m.Worker(true, time.Millisecond, time.Millisecond)
	m.Worker(false, time.Millisecond, 0)

	got := text(t, m.Registry)
	for _, want := range []string{`kubelet_node_name{node="n1"} 1`, "kubelet_running_pods 3",
		`kubelet_running_containers{container_state="running"} 4`,
		`kubelet_runtime_operations_total{operation_type="stop_container"} 1`,
		`kubelet_runtime_operations_errors_total{operation_type="stop_container"} 1`,
		`kubelet_runtime_operations_duration_seconds_count{operation_type="stop_container"} 1`,
		"kubelet_started_pods_total 1", "kubelet_started_pods_errors_total 1",
		`kubelet_started_containers_total{container_type="container"} 1`,
		`kubelet_started_containers_errors_total{code="ErrImagePull",container_type="init_container"} 1`,
		`kubelet_started_host_process_containers_total{container_type="init_container"} 1`,
		`kubelet_started_host_process_containers_errors_total{code="ErrImagePull",container_type="init_container"} 1`,
		"kubelet_pod_start_duration_seconds_count 2", "kubelet_pod_start_sli_duration_seconds_count 1",
		"kubelet_pod_start_total_duration_seconds_count 2",
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"} 1`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="sync"} 1`,
		"kubelet_pod_worker_start_duration_seconds_count 1", "process_start_time_seconds", "go_goroutines"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s", want)
		}
	}
}

func TestProbesAreForgottenWithTheirPod(t *testing.T) {
	m := New(Options{})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	m.Probe(pod, "c", "Liveness", "failed", time.Millisecond)
	if got := text(t, m.Probes); !strings.Contains(got,
		`prober_probe_total{container="c",namespace="ns",pod="p",pod_uid="u",probe_type="Liveness",result="failed"} 1`) ||
		!strings.Contains(got,
			`prober_probe_duration_seconds_count{container="c",namespace="ns",pod="p",probe_type="Liveness"} 1`) {
		t.Errorf("%s", got)
	}
	m.Forget(pod)
	if got := text(t, m.Probes); strings.Contains(got, "pod_uid") ||
		strings.Contains(got, "prober_probe_duration_seconds") {
		t.Errorf("after the pod has gone: %s", got)
	}
}

func TestNilMeterCountsNothing(t *testing.T) {
	var m *Meter
	countCall(m, "/x/Y", nil)
	m.Sandbox(nil)
	m.Container(nil, "", "", false)
	m.Running(nil, time.Time{}, time.Time{}, false)
	m.Worker(true, 0, 0)
	m.Probe(nil, "", "", "", 0)
	m.Forget(nil)
}
