package networkapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/apiconn"
)

// ofAgent are answers to the calls that only the agent of the pod network makes, by path.
var ofAgent = map[string]string{
	"/api/v1/pods":                   `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"}}]}`,
	"/api/v1/namespaces/shop/pods/p": `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"u","annotations":{"a":"b"}}}`,
	"/api/v1/nodes/win01/status":     `{"kind":"Node","apiVersion":"v1"}`,
}

// callsOfAgent makes them.
func callsOfAgent(t *testing.T, c *Client) {
	t.Helper()
	pods, err := c.Pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=win01"})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("%+v, %v", pods, err)
	}
	uid, annotations, err := PodAnnotations(t.Context(), c, "shop", "p")
	if err != nil || uid != "u" || annotations["a"] != "b" {
		t.Errorf("uid %q, annotations %v, %v", uid, annotations, err)
	}
	if err := AnnotateNode(t.Context(), c, "win01", map[string]string{"a": "b"}); err != nil {
		t.Error(err)
	}
}

// TestClient: each call has the right path and protobuf as content type, and the server's answer is decoded.
func TestClient(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		content := r.Header.Get("Content-Type")
		if !strings.Contains(r.Header.Get("Accept"), "protobuf") ||
			len(body) > 0 && r.Method != http.MethodPatch && !strings.HasPrefix(string(body), "k8s\x00") {
			t.Errorf("%s %s is not in protobuf: %q", r.Method, r.URL, body)
		}

		asked = append(asked, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), content))
		w.Header().Set("Content-Type", "application/json")
		if answer := ofAgent[r.URL.Path]; answer != "" {
			_, _ = io.WriteString(w, answer)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"not you","code":403}`)
			return
		}
		kind := map[bool]string{true: "Event", false: "ServiceList"}[strings.Contains(r.URL.Path, "/events")]
		if strings.Contains(r.URL.Path, "endpointslices") {
			kind = "EndpointSliceList"
			_, _ = io.WriteString(w,
				`{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[{"metadata":{"name":"s"}}]}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"7"}}`, kind)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config"}`), 0o600); err != nil {
		t.Fatal(err)
	}

	c, host, err := New(apiconn.Options{Kubeconfig: kubeconfig, Master: server.URL, UserAgent: "test", QPS: 50})
	if err != nil || host != server.URL {
		t.Fatalf("%q, %v", host, err)
	}

	services, err := c.Services("shop").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=web"})
	if err != nil || services.ResourceVersion != "7" {
		t.Errorf("%+v, %v", services, err)
	}

	endpointSlices, err := c.Slices.List(t.Context(), metav1.ListOptions{Limit: 5})
	if err != nil || len(endpointSlices.Items) != 1 {
		t.Errorf("%+v, %v", endpointSlices, err)
	}
	if _, err := c.Nodes.List(t.Context(), metav1.ListOptions{}); err == nil || err.Error() != "not you" {
		t.Errorf("what the server refuses: %v", err)
	}

	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}}

	for what, call := range map[string]func() (*corev1.Event, error){
		"create": func() (*corev1.Event, error) { return c.Events.Create(e) },
		"update": func() (*corev1.Event, error) { return c.Events.Update(e) },
		"patch":  func() (*corev1.Event, error) { return c.Events.Patch(e, []byte("{}")) }} {
		if got, err := call(); err != nil || got.ResourceVersion != "7" {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}

	callsOfAgent(t, c)

	const protobuf = "application/vnd.kubernetes.protobuf"
	want := []string{"GET /api/v1/namespaces/shop/pods/p ",
		"GET /api/v1/namespaces/shop/services?fieldSelector=metadata.name%3Dweb ", "GET /api/v1/nodes ",
		"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dwin01 ",
		"GET /apis/discovery.k8s.io/v1/endpointslices?limit=5 ",
		"PATCH /api/v1/namespaces/shop/events/e application/strategic-merge-patch+json",
		"PATCH /api/v1/nodes/win01/status application/strategic-merge-patch+json",
		"POST /api/v1/namespaces/shop/events " + protobuf, "PUT /api/v1/namespaces/shop/events/e " + protobuf}
	if slices.Sort(asked); !slices.Equal(asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

// TestNoServer: the error names the file that cannot be loaded.
func TestNoServer(t *testing.T) {
	_, _, err := New(apiconn.Options{Kubeconfig: "/nowhere/kubeconfig"})
	if err == nil || !strings.Contains(err.Error(), "loading kubeconfig /nowhere/kubeconfig") {
		t.Error(err)
	}
}

// TestNodeAnswers: a node that answers without an end costs 16 MiB, whether it calls that a success or not.
func TestNodeAnswers(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		var sent atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			for part := make([]byte, 1<<20); r.Context().Err() == nil; {
				n, err := w.Write(part)
				if sent.Add(int64(n)); err != nil || sent.Load() > 1<<30 {
					return
				}
			}
		}))
		defer server.Close()
		c, _, err := New(apiconn.Options{Master: server.URL, UserAgent: "test"})
		if err != nil {
			t.Fatal(err)
		}
		data, err := c.AskNode(t.Context(), "win01", "porthole/facts")
		if err == nil || !strings.Contains(err.Error(), "win01") || len(data) > 16<<20 || sent.Load() > 64<<20 {
			t.Errorf("status %d: %d bytes of %d that were sent, %v, want an error that names the node", status,
				len(data), sent.Load(), err)
		}
	}
}
