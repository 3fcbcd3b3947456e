package networkapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"porthole.dev/porthole/internal/apiconn"
)

// Lister lists and watches objects of one kind, as client-go's typed clients do.
type Lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Client has the calls that a service proxy and the agent of the pod network make.
type Client struct {
	// Services of one namespace; "" means all.
	Services func(namespace string) Lister[*corev1.ServiceList]
	Slices   Lister[*discoveryv1.EndpointSliceList] // of all namespaces
	Nodes    Lister[*corev1.NodeList]
	Pods     Lister[*corev1.PodList] // of all namespaces
	Events   record.EventSink
	// AllEvents are those of all namespaces.
	AllEvents Lister[*corev1.EventList]
	// PatchNodeStatus changes a node through its status, with a strategic merge patch.
	PatchNodeStatus func(ctx context.Context, name string, patch []byte) error
	// Pod reads one pod, from the API server and not from a cache.
	Pod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Ready returns nil if the API server answers that it is ready.
	Ready func(context.Context) error
	// AskNode reads a path of a node's kubelet through the API server, which needs the right to get nodes/proxy. The
	// path may have a query.
	AskNode func(ctx context.Context, node, path string) ([]byte, error)
	// NoWatchLists says that a watch cannot begin with the list. Fakes of client-go need it.
	NoWatchLists bool
}

// IsWatchListSemanticsUnSupported is what client-go's reflectors call.
func (c *Client) IsWatchListSemanticsUnSupported() bool { return c.NoWatchLists }

// scheme knows the kinds that this package uses.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{}, &corev1.Node{},
		&corev1.NodeList{}, &corev1.Pod{}, &corev1.PodList{}, &corev1.Event{}, &corev1.EventList{})
	s.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, discoveryv1.SchemeGroupVersion)
	return s
}()

// New returns a client, and the server's address.
func New(o apiconn.Options) (client *Client, server string, err error) {
	cfg, err := o.Config()
	if err != nil {
		return nil, "", err
	}
	cfg = apiconn.Protobuf(cfg)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.Wrap(largeReads)
	cfg.Wrap(boundAnswers)
	if cfg.QPS > 0 { // one limit for both groups, as client-go's clientset has it
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cmp.Or(cfg.Burst, rest.DefaultBurst))
	}

	core, err := group(cfg, "/api", corev1.SchemeGroupVersion)
	if err != nil {
		return nil, "", fmt.Errorf("making a client from %s: %w", o, err)
	}
	discovery, err := group(cfg, "/apis", discoveryv1.SchemeGroupVersion)
	if err != nil {
		return nil, "", fmt.Errorf("making a client from %s: %w", o, err)
	}

	services := kind[*corev1.ServiceList]{core, "services", "",
		func() *corev1.ServiceList { return &corev1.ServiceList{} }}
	return &Client{
		Services: func(namespace string) Lister[*corev1.ServiceList] { return services.in(namespace) },
		Slices: kind[*discoveryv1.EndpointSliceList]{discovery, "endpointslices", "",
			func() *discoveryv1.EndpointSliceList { return &discoveryv1.EndpointSliceList{} }},
		Nodes:     kind[*corev1.NodeList]{core, "nodes", "", func() *corev1.NodeList { return &corev1.NodeList{} }},
		Pods:      kind[*corev1.PodList]{core, "pods", "", func() *corev1.PodList { return &corev1.PodList{} }},
		Events:    DistinctEvents(eventSink{core}),
		AllEvents: kind[*corev1.EventList]{core, "events", "", func() *corev1.EventList { return &corev1.EventList{} }},
		Ready:     func(ctx context.Context) error { return core.Get().AbsPath("/readyz").Do(ctx).Error() },
		AskNode: func(ctx context.Context, node, path string) ([]byte, error) {
			return askNode(ctx, core, node, path)
		},
		PatchNodeStatus: func(ctx context.Context, name string, patch []byte) error {
			return core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(name).SubResource("status").
				Body(patch).Do(ctx).Error()
		},
		Pod: func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
			pod := &corev1.Pod{}
			err := core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
			return pod, err
		},
	}, cfg.Host, nil
}

// askNode asks for a path of a node's kubelet, with its query.
func askNode(ctx context.Context, client rest.Interface, node, path string) ([]byte, error) {
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("asking node %s for %s: %w", node, path, err)
	}
	r := client.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(path)
	for name, list := range values {
		for _, value := range list {
			r = r.Param(name, value)
		}
	}
	data, err := r.Do(ctx).Raw()
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, fmt.Errorf("asking node %s for %s: it answers more than %d bytes", node, path, large.Limit)
	}
	return data, err
}

// readBuffer is how many bytes of an answer are read at once. The default of net/http is 4 KiB, and on Windows each
// read takes several system calls, because of completion ports.
const readBuffer = 64 << 10

func largeReads(rt http.RoundTripper) http.RoundTripper {
	if t, ok := rt.(*http.Transport); ok {
		t.ReadBufferSize = readBuffer
	}
	return rt
}

// maxNodeAnswer is the most that is read of what a node's kubelet answers through the API server: 16 MiB. A node of 500
// pods says less than one.
const maxNodeAnswer = 16 << 20

// boundAnswers limits the size of answers that the API server passes on from kubelets: a node can send more than fits
// into memory. Answers of the API server itself have no limit.
func boundAnswers(rt http.RoundTripper) http.RoundTripper { return boundedNodes{rt} }

type boundedNodes struct{ http.RoundTripper }

func (b boundedNodes) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") && strings.Contains(r.URL.Path, "/proxy/") {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxNodeAnswer)
	}
	return resp, err
}

// group returns a client for one API group. Clients of one configuration share their connections.
func group(cfg *rest.Config, path string, version schema.GroupVersion) (rest.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.APIPath, c.GroupVersion = path, &version
	return rest.RESTClientFor(c)
}

var parameters = runtime.NewParameterCodec(scheme)

// kind lists and watches one kind. client-go's gentype does the same, but brings its fakes into the program, with all
// kinds.
type kind[L runtime.Object] struct {
	group               rest.Interface
	resource, namespace string
	empty               func() L
}

func (k kind[L]) in(namespace string) kind[L] {
	k.namespace = namespace
	return k
}

// List returns the objects that o selects.
func (k kind[L]) List(ctx context.Context, o metav1.ListOptions) (L, error) {
	list := k.empty()
	err := k.get(o).Do(ctx).Into(list)
	return list, err
}

// Watch sends the changes of the objects that o selects.
func (k kind[L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return k.get(o).Watch(ctx)
}

func (k kind[L]) get(o metav1.ListOptions) *rest.Request {
	r := k.group.Get().NamespaceIfScoped(k.namespace, k.namespace != "").Resource(k.resource).
		VersionedParams(&o, parameters)
	if o.TimeoutSeconds != nil {
		r = r.Timeout(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	return r
}

// eventSink writes events to their namespaces.
type eventSink struct{ group rest.Interface }

// Create writes a new event.
func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	return sent(s.group.Post(), e, e)
}

// Update replaces an event.
func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) {
	return sent(s.group.Put().Name(e.Name), e, e)
}

// Patch changes an event, for example its count.
func (s eventSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	return sent(s.group.Patch(types.StrategicMergePatchType).Name(e.Name), e, data)
}

func sent(r *rest.Request, e *corev1.Event, body any) (*corev1.Event, error) {
	result := &corev1.Event{}
	err := r.Namespace(e.Namespace).Resource("events").Body(body).Do(context.Background()).Into(result)
	return result, err
}
