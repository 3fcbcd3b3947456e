package kubeproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/apiconn"
	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/proxy/service"
)

const bigServices, manyPods = 10_000, 10

// bigCluster is an API server with 10,000 services of ten endpoints each. It generates objects while it streams them:
// first as a watch with initial events, then each slice that arrives on changes.
type bigCluster struct {
	changes chan *discoveryv1.EndpointSlice
}

func (b *bigCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("watch") == "" || query.Get("sendInitialEvents") == "" {
		http.Error(w, "only watches with initial events", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	send := func(kind string, object any) {
		// An error means that the client hung up: its context ends too.
		_ = encoder.Encode(map[string]any{"type": kind, "object": object})
	}

	end := metav1.ObjectMeta{ResourceVersion: "1",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	flush := func() { w.(http.Flusher).Flush() }
	switch {
	case strings.HasSuffix(r.URL.Path, "/services"):
		for i := range bigServices {
			send("ADDED", numberedService(i))
		}
		send("BOOKMARK", &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: end})
	case strings.HasSuffix(r.URL.Path, "/endpointslices"):
		for i := range bigServices {
			send("ADDED", numberedSlice(i, 0))
		}
		send("BOOKMARK", &discoveryv1.EndpointSlice{TypeMeta: sliceType, ObjectMeta: end})
		flush()
		for {
			select {
			case s := <-b.changes:
				send("MODIFIED", s)
				if len(b.changes) == 0 {
					flush()
				}
			case <-r.Context().Done():
				return
			}
		}
	default:
		node := metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
		send("ADDED", &corev1.Node{TypeMeta: node, ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "1"}})
		send("BOOKMARK", &corev1.Node{TypeMeta: node, ObjectMeta: end})
	}
	flush()
	<-r.Context().Done()
}

var sliceType = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}

func numberedService(i int) *corev1.Service {
	name := fmt.Sprintf("service-%05d", i)
	ip := fmt.Sprintf("10.96.%d.%d", i>>8, i&255)
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1",
			UID:    "8f2b4d0e-0000-4000-8000-000000000000",
			Labels: map[string]string{"app": name, "tier": "backend"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:ports":{}}}`)}}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}}}
}

func numberedSlice(i, round int) *discoveryv1.EndpointSlice {
	name := fmt.Sprintf("service-%05d", i)
	yes, no, portName, number, tcp := true, false, "http", int32(8080), corev1.ProtocolTCP
	s := &discoveryv1.EndpointSlice{TypeMeta: sliceType, AddressType: discoveryv1.AddressTypeIPv4,
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-abcde",
			ResourceVersion: fmt.Sprint(round + 1),
			Labels: map[string]string{discoveryv1.LabelServiceName: name,
				discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", "app": name}},
		Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &number, Protocol: &tcp}}}

	for p := range manyPods {
		n := i*manyPods + p
		node := fmt.Sprintf("n%d", n%100)
		addr := fmt.Sprintf("10.%d.%d.%d", 16+n>>16, n>>8&255, n&255)
		if p == 0 && round > 0 {
			addr = fmt.Sprintf("172.16.%d.%d", round>>8, round&255)
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default",
				Name: fmt.Sprintf("%s-%d", name, p)}})
	}
	return s
}

func heapMB() float64 {
	runtime.GC()
	runtime.GC() // the first one empties what weak pointers and pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// TestBigCluster bounds what 10,000 services with ten endpoints each leave in memory between the API server and the
// mode, and follows a burst of changes. The whole process is to stay under 80 MB with HNS's objects.
func TestBigCluster(t *testing.T) {
	cluster := &bigCluster{changes: make(chan *discoveryv1.EndpointSlice, 100)}
	server := httptest.NewServer(cluster)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // before the server waits for its connections
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}],"current-context":"c"}`

	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, _, err := networkapi.New(apiconn.Options{Kubeconfig: kubeconfig, UserAgent: "test", QPS: -1})
	if err != nil {
		t.Fatal(err)
	}

	before, started := heapMB(), time.Now()
	s := watchServices(ctx, client, "n1", service.Refuse, nil)
	all := map[string]service.State{}
	wait := func(what string, done func() bool) {
		t.Helper()
		deadline := time.After(2 * time.Minute)
		for !done() {
			select {
			case <-s.feed.Changed():
				states, complete := s.take()
				if !complete && len(states) > 0 {
					t.Fatal("states before all is there")
				}
				for _, state := range states {
					all[state.Service] = state
				}
			case <-deadline:
				t.Fatalf("%s did not happen; %d services", what, len(all))
			}
		}
	}

	wait("the start", func() bool { return len(all) == bigServices })
	took := time.Since(started)
	after := heapMB()
	t.Logf("%d services after %v: heap %.1f MB more; %s", len(all), took.Round(time.Millisecond), after-before,
		memory(t))
	if after-before > 40 {
		t.Errorf("the heap grew by %.1f MB", after-before)
	}

	const burst = 5000
	started = time.Now()
	go func() {
		for round := 1; round <= burst; round++ {
			select {
			case cluster.changes <- numberedSlice(77, round):
			case <-ctx.Done():
				return
			}
		}
	}()

	last := fmt.Sprintf("172.16.%d.%d", burst>>8, burst&255)
	wait("the last change", func() bool {
		backends := all["default/service-00077"].Frontends[0].Backends
		return backends[len(backends)-1].Addr.String() == last
	})
	t.Logf("%d changes in %v, made and read in this process; %s", burst, time.Since(started).Round(time.Millisecond),
		memory(t))
	runtime.KeepAlive(all)
}

// memory returns what the system reports about the memory of this process, or nothing if it does not report it.
func memory(t *testing.T) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "no /proc"
	}
	var out []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}
