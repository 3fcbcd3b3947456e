package web

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// api is an API server of a made cluster: it answers what a page asks, in protobuf as the real one, and counts the
// questions.
type api struct {
	*made
	url         string
	certificate []byte // PEM

	mu      sync.Mutex
	asked   map[string]int // by what was asked: "watch pods", "list pods", "nodes/proxy porthole/routes/status", …
	streams map[chan watch.Event]string
}

func serveAPI(t *testing.T, m *made) *api {
	t.Helper()
	a := &api{made: m, asked: map[string]int{}, streams: map[chan watch.Event]string{}}
	// HTTP/2, as real API servers have it: all questions share a connection.
	server := httptest.NewUnstartedServer(a)
	server.EnableHTTP2 = true
	server.StartTLS()
	a.url, a.certificate = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return a
}

// kubeconfig writes a file that leads to the API server.
func (a *api) kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recorded.conf")
	text := fmt.Sprintf(
		"{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], contexts: [{name: c, context: {cluster: c}}]}",
		a.url, base64.StdEncoding.EncodeToString(a.certificate))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// counted returns what was asked so far.
func (a *api) counted() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.asked)
}

func (a *api) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[what]++
}

// ServeHTTP answers /readyz, lists, watches and questions to kubelets.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	node, question, asksNode := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/proxy/porthole/")
	switch {
	case r.URL.Path == "/readyz":
		a.count("readyz")
		io.WriteString(w, "ok")
	case asksNode:
		a.count("nodes/proxy " + question)
		a.askNode(w, r, node, question)
	case r.URL.Query().Get("watch") != "":
		a.count("watch " + kind)
		a.watch(w, r, kind)
	default:
		a.count("list " + kind)
		// A watch may begin with the list, which clients ask for first.
		http.Error(w, "lists are not recorded", http.StatusNotImplemented)
	}
}

func (a *api) askNode(w http.ResponseWriter, r *http.Request, node, question string) {
	program, path, _ := strings.Cut(question, "/")
	os := "windows"
	if strings.HasPrefix(node, "lin") {
		os = "linux"
	}
	ref := model.NodeRef{Name: node, OS: os}
	if _, err := a.Ask(r.Context(), ref, collect.Program(program), "/"+path); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	httpserve.AnswerNews(w, r, func() []byte {
		data, _ := a.Ask(r.Context(), ref, collect.Program(program), "/"+path) // it answered just now
		return data
	})
}

// objects are those of a kind.
func (a *api) objects(kind string) (list []runtime.Object) {
	switch kind {
	case "nodes":
		return objects(a.Nodes())
	case "pods":
		return objects(a.Pods())
	case "services":
		return objects(a.Services())
	case "endpointslices":
		return objects(a.Slices())
	case "events":
		return objects(a.Events())
	}
	return nil
}

func objects[T runtime.Object](from []T) (list []runtime.Object) {
	for _, o := range from {
		list = append(list, o)
	}
	return list
}

// watch sends all objects of a kind, the bookmark that ends them, and then changes.
func (a *api) watch(w http.ResponseWriter, r *http.Request, kind string) {
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	events := make(chan watch.Event, 1000)
	a.mu.Lock()
	a.streams[events] = kind
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.streams, events)
	}()

	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(w)
	send := func(kind watch.EventType, o runtime.Object) error { return writeEvent(frames, kind, o) }
	for _, o := range a.objects(kind) {
		if send(watch.Added, o) != nil {
			return
		}
	}
	if send(watch.Bookmark, bookmark(kind)) != nil {
		return
	}
	for {
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if send(e.Type, e.Object) != nil {
				return
			}
		}
	}
}

// bookmark ends the objects that were there when the watch began.
func bookmark(kind string) runtime.Object {
	meta := metav1.ObjectMeta{ResourceVersion: "1000",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	switch kind {
	case "nodes":
		return &v1.Node{ObjectMeta: meta}
	case "pods":
		return &v1.Pod{ObjectMeta: meta}
	case "services":
		return &v1.Service{ObjectMeta: meta}
	case "endpointslices":
		return &discoveryv1.EndpointSlice{ObjectMeta: meta}
	}
	return &v1.Event{ObjectMeta: meta}
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(v1.SchemeGroupVersion, &v1.Node{}, &v1.Pod{}, &v1.Service{}, &v1.Event{})
	s.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{})
	return s
}()

// writeEvent writes one event of a watch, as API servers encode them in protobuf.
func writeEvent(w io.Writer, kind watch.EventType, o runtime.Object) error {
	kinds, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return err
	}
	o = o.DeepCopyObject()
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var object, event bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(o, &object); err != nil {
		return err
	}
	if err := protobuf.NewRawSerializer(scheme, scheme).
		Encode(&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object.Bytes()}},
			&event); err != nil {
		return err
	}
	_, err = w.Write(event.Bytes())
	return err
}

// changePod makes a pod ready or not, and tells those who watch.
func (a *api) changePod(i int, ready bool) {
	a.setReady(i, ready)
	pod := a.Pods()[i]
	a.mu.Lock()
	defer a.mu.Unlock()
	for events, kind := range a.streams {
		if kind == "pods" {
			select {
			case events <- watch.Event{Type: watch.Modified, Object: pod}:
			default: // it reads slowly
			}
		}
	}
}
