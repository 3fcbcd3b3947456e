package kubelet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// testServer sends the requests of kubectl and of metrics collectors to the kubelet's server.
func testServer(t *testing.T, w *world) {
	p := newPod("talk", "env", "WORD")
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "WORD", Value: "spoken"}}
	w.create(t, p)
	w.until(t, time.Minute, p.Name, func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount < 1 {
			return fmt.Errorf("not restarted yet: %s", statusText(p))
		}
		return nil
	})

	lines := ""
	must(t, wait.For(w.ctx, 20*time.Second, "the new instance to speak", func(context.Context) error {
		if lines = logOf(t, w, ""); !strings.Contains(lines, "spoken\n") {
			return fmt.Errorf("log: %q", lines)
		}
		return nil
	}))
	if got := logOf(t, w, "?previous=true"); got != lines {
		t.Errorf("log of the instance before: %q, want %q", got, lines)
	}
	if got := logOf(t, w, "?limitBytes=3"); got != lines[:3] {
		t.Errorf("three bytes of the log: %q", got)
	}
	if got := logOf(t, w, "?timestamps=true"); len(got) != len(lines)+strings.Count(lines,
		"\n")*len("2006-01-02T15:04:05.000000000Z ") {
		t.Errorf("time stamps are not of one width: %q", got)
	}

	metrics := ask(t, w, "metrics")
	for _, want := range []string{"kubelet_running_pods ", `kubelet_running_containers{container_state="exited"} `,
		`kubelet_started_containers_total{container_type="container"} `,
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"} `,
		"kubelet_pod_start_duration_seconds_count ", `rest_client_requests_total{`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if got := ask(t, w, "metrics/resource"); !strings.Contains(got, "node_cpu_usage_seconds_total ") ||
		!strings.Contains(got, "resource_scrape_error 0") {
		t.Errorf("/metrics/resource: %s", got)
	}
	if got := ask(t, w, "configz"); !strings.Contains(got, `"kubeletconfig":{`) ||
		!strings.Contains(got, `"evictionHard":{"memory.available":"100Mi"}`) {
		t.Errorf("/configz: %s", got)
	}
	if got := ask(t, w, "pods"); !strings.Contains(got, `"name":"talk"`) {
		t.Errorf("/pods: %s", got)
	}

	testPages(t, w)
	w.remove(t, "talk", nil)
}

// testPages reads the status pages of the server, the checkpoint of a container, and the metrics of the runtime.
func testPages(t *testing.T, w *world) {
	counted := newPod("counted", "sleep")
	// what a limit of processors does is shown for containers that have one
	counted.Spec.Containers[0].Resources = exactly("100m", "64Mi")
	w.create(t, counted)
	w.until(t, 30*time.Second, "counted", ready)
	defer w.remove(t, "counted", nil)

	if got := ask(t, w, "statusz"); !strings.Contains(got, "kubelet statusz\n") ||
		!strings.Contains(got, "\nBinary version: 1.36.3\n") || !strings.Contains(got, " /checkpoint ") {
		t.Errorf("/statusz: %s", got)
	}
	if got := ask(t, w, "flagz"); !strings.Contains(got, "\nhostname-override="+node+"\n") {
		t.Errorf("/flagz: %s", got)
	}
	if got := ask(t, w, "healthz"); got != "ok" {
		t.Errorf("/healthz: %s", got)
	}

	// containerd needs CRIU for checkpoints, which few machines have: its error shows that it was asked
	code, text := w.call(t, http.MethodPost, "checkpoint/"+namespace+"/counted/app")
	switch {
	case code == http.StatusOK:
		file := strings.TrimSuffix(strings.TrimPrefix(text, `{"items":["`), `"]}`)
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("the checkpoint %s: %v", text, err)
		}
	case code != http.StatusInternalServerError ||
		!strings.HasPrefix(text, "checkpointing of "+namespace+"/counted/app failed ("):
		t.Errorf("/checkpoint: %d %s", code, text)
	default:
		t.Logf("/checkpoint: %s", text)
	}

	must(t, wait.For(w.ctx, 30*time.Second, "series of containers", func(context.Context) error {
		got := ask(t, w, "metrics/cadvisor")
		for _, want := range []string{"\nmachine_cpu_cores{", "\ncontainer_scrape_error 0\n",
			`container_memory_working_set_bytes{container="",id="/",`,
			`,namespace="` + namespace + `",pod="counted"} `, `,image="` + testkit.TestImage + `",name="`,
			"\ncontainer_cpu_cfs_periods_total{", "\ncontainer_memory_cache{",
			"\ncontainer_network_receive_packets_total{"} {
			if !strings.Contains(got, want) {
				return fmt.Errorf("/metrics/cadvisor lacks %s: %.3000s", want, got)
			}
		}
		return nil
	}))
}

func logOf(t *testing.T, w *world, query string) string {
	t.Helper()
	return ask(t, w, "containerLogs/"+namespace+"/talk/app"+query)
}

// ask reads a path of the kubelet's server, in the World's network.
func ask(t *testing.T, w *world, path string) string {
	t.Helper()
	code, text := w.call(t, http.MethodGet, path)
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, code, text)
	}
	return text
}

// upstreamsPart is a part of the health that upstream's kubelet alone has: ours goes on if device plugins cannot
// register, and logs it.
const upstreamsPart = "[+]device-plugin ok\n"

// healthCounts returns the parts of the health of a page of figures, without how often somebody has asked.
func healthCounts(page string) (out []string) {
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(series, "kubernetes_healthcheck{") {
			series += "} " + value
		}
		if strings.HasPrefix(series, "kubernetes_health") && !strings.Contains(series, `name="device-plugin"`) {
			out = append(out, series)
		}
	}
	return out
}

// testHealth: our kubelet and upstream's answer alike about the parts of their health, but for that one.
func testHealth(t *testing.T, w *world) {
	answers := func() (out []string) {
		// the node can be Ready a moment before
		must(t, wait.For(w.ctx, 20*time.Second, "the kubelet to listen", func(context.Context) error {
			resp, err := w.http().Get(kubeletURL + "healthz")
			if err == nil {
				resp.Body.Close()
			}
			return err
		}))
		for _, path := range []string{"healthz", "healthz?verbose", "healthz?verbose&exclude=log&exclude=b&exclude=a",
			"healthz/ping", "healthz/log", "healthz/syncloop"} {
			out = append(out, path+": "+ask(t, w, path))
		}
		return append(out, healthCounts(ask(t, w, "metrics/slis"))...)
	}
	ours := answers()
	w.kubelet.Stop()
	defer func() {
		w.kubelet.Stop()
		w.startKubelet()
	}()
	var err error
	w.kubelet, err = w.StartKubelet(w.ctx, node, true)
	must(t, err)

	theirs := answers()
	for i := range theirs {
		theirs[i] = strings.ReplaceAll(theirs[i], upstreamsPart, "")
	}
	if !slices.Equal(ours, theirs) {
		t.Errorf("ours:\n%s\nupstream's:\n%s", strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
	}
}

// kubeletURL is the address of the kubelet's server in the World's network.
const kubeletURL = "https://" + testkit.NodeIP + ":10250/"

func (w *world) call(t *testing.T, method, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, kubeletURL+path, nil)
	must(t, err)
	resp, err := w.http().Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// http returns a client in the World's network.
func (w *world) http() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = platform.InNetns(w.Netns(), func() error {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		}}}
}

// testFollows: the files of a volume change within a second after the objects that they show. Statistics show the pod.
func testFollows(t *testing.T, w *world) {
	maps := w.Client.CoreV1().ConfigMaps(namespace)
	cm, err := maps.Create(w.ctx,
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "live"}, Data: map[string]string{"k": "old"}},
		metav1.CreateOptions{})
	must(t, err)
	p := newPod("follow", "sleep", "3600")
	p.Spec.Volumes = []v1.Volume{{Name: "live",
		VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "live"}}}},
		{Name: "own",
			VolumeSource: v1.VolumeSource{
				DownwardAPI: &v1.DownwardAPIVolumeSource{
					Items: []v1.DownwardAPIVolumeFile{{Path: "labels",
						FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "live", MountPath: "/live"},
		{Name: "own", MountPath: "/own"}}
	w.create(t, p)
	p = w.until(t, time.Minute, p.Name, ready)
	volumes := filepath.Join(w.KubeletRoot(node), "pods", string(p.UID), "volumes")
	shows := func(file, want string) {
		t.Helper()
		must(t, wait.For(w.ctx, time.Second, file+" to change", func(context.Context) error {
			data, err := os.ReadFile(filepath.Join(volumes, file))
			if err == nil && string(data) != want {
				err = fmt.Errorf("it is %q", data)
			}
			return err
		}))
	}
	cm.Data["k"] = "new"
	_, err = maps.Update(w.ctx, cm, metav1.UpdateOptions{})
	must(t, err)
	shows("kubernetes.io~configmap/live/k", "new")
	_, err = w.Client.CoreV1().Pods(namespace).
		Patch(w.ctx, p.Name, "application/strategic-merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`),
			metav1.PatchOptions{})
	must(t, err)
	shows("kubernetes.io~downward-api/own/labels", `a="b"`)

	must(t, wait.For(w.ctx, 30*time.Second, "the pod in the statistics", func(context.Context) error {
		var all statsapi.Summary
		if err := json.Unmarshal([]byte(ask(t, w, "stats/summary")), &all); err != nil {
			return err
		}
		for _, one := range all.Pods {
			if one.PodRef.UID != string(p.UID) || len(one.Containers) != 1 {
				continue
			}
			c := one.Containers[0]
			if c.Logs == nil || *c.Logs.AvailableBytes == 0 || c.Memory == nil || *c.Memory.WorkingSetBytes == 0 ||
				len(one.VolumeStats) < 2 || one.EphemeralStorage == nil {
				return fmt.Errorf("incomplete: %+v", one)
			}
			return nil
		}
		return fmt.Errorf("%d pods, but not this one", len(all.Pods))
	}))
	w.remove(t, p.Name, nil)
	must(t, maps.Delete(w.ctx, "live", metav1.DeleteOptions{}))
}
