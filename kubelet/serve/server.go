package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/usage"
)

// Limits of one connection, upstream's: a stream (logs, exec) may last as long as streamTimeout.
const (
	streamTimeout = 4 * time.Hour
	idleTimeout   = 90 * time.Second
	// headerTimeout is how long a client may take for the handshake and the head of a request: nobody is known before
	// that.
	headerTimeout = 10 * time.Second
)

// Server serves one node.
type Server struct {
	opts  Options
	certs func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	guard *guard
	stats *sampler
	slis  *slis
	// requests counts them.
	requests *requests
	// metrics are those that the runtime measures itself; its ask is nil if there is no runtime to ask.
	metrics latest[[]RuntimeMetric]
	// groups keeps what was last read from the cgroups, so that several requests at once cost one reading. Its ask is
	// nil where there are no cgroups.
	groups latest[[]usage.Group]
}

// New checks the options and loads the serving certificate, or makes one. It does not listen yet.
func New(opts Options) (*Server, error) {
	if opts.Pods == nil {
		return nil, errors.New("serving: no source of pods")
	}

	if opts.Address == "" {
		opts.Address = "0.0.0.0:10250"
	}
	if opts.HealthAddress == "" {
		opts.HealthAddress = "127.0.0.1:10248"
	}
	if opts.Metrics == nil {
		opts.Metrics = prometheus.DefaultGatherer
	}

	certs, err := certificateSource(opts.TLS, opts.NodeName)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, certs: certs, guard: newGuard(opts.Auth, opts.NodeName), stats: newSampler(opts),
		slis: newSLIs(), requests: newRequests()}
	if opts.Stats != nil {
		s.metrics.ask = opts.Stats.Metrics
		s.metrics.maxAge = statsAge
	}
	// Readings of cgroups are shared by requests that come within groupsAge.
	if c := opts.Machine.Cgroups; c.Reader != nil {
		s.groups.maxAge = groupsAge
		s.groups.ask = func(ctx context.Context) ([]usage.Group, error) {
			return c.Reader.Trees(ctx, c.Pods(), c.others()...), nil
		}
	}
	return s, nil
}

// Run listens and serves until ctx ends or listening fails. It returns nil when ctx ended.
func (s *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.opts.Address)
	if err != nil {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	// One place for each listener, so that nobody blocks when Run has returned.
	failed := make(chan error, 3)
	// All ports are open before the first request is answered.
	for _, open := range openPorts(s) {
		l, err := net.Listen("tcp", open.address)
		if err != nil {
			listener.Close()
			return fmt.Errorf("serving %s: %w", open.what, err)
		}
		defer httpserve.Start(l, open.handler, func(err error) { failed <- err })()
	}

	server := serverOf(s)
	var all sync.WaitGroup
	all.Go(func() { failed <- server.ServeTLS(listener, "", "") })
	klog.FromContext(ctx).Info("Serving the kubelet API", "address", listener.Addr().String())
	all.Go(func() { s.stats.run(ctx) })

	select {
	case <-ctx.Done():
		server.Close()
		all.Wait()
		return nil
	case err = <-failed: // ctx goes on, and with it the statistics
		server.Close()
		return err
	}
}

// serverOf returns the server of the kubelet's port.
func serverOf(s *Server) *http.Server {
	return &http.Server{Handler: s.Handler(), TLSConfig: s.tlsConfig(), ReadHeaderTimeout: headerTimeout,
		ReadTimeout: streamTimeout, WriteTimeout: streamTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 1 << 20}
}

// openPort is a port at which everybody may ask, over HTTP.
type openPort struct {
	what, address string
	handler       http.Handler
}

// openPorts are the ports for health and for reading; "-" and "" leave them out.
func openPorts(s *Server) (list []openPort) {
	if s.opts.HealthAddress != "-" {
		list = append(list, openPort{"health", s.opts.HealthAddress, muxOf(s.healthRoutes())})
	}
	if s.opts.ReadOnlyAddress != "" {
		list = append(list, openPort{"the read-only port", s.opts.ReadOnlyAddress,
			s.requests.count("readonly", muxOf(readOnlyRoutes(s)))})
	}
	return list
}

// tlsConfig returns a configuration that asks clients for a certificate, but does not insist: they may have a token.
func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{GetCertificate: s.certs, ClientAuth: tls.RequestClientCert,
		MinVersion:   max(s.opts.TLS.MinVersion, tls.VersionTLS12),
		CipherSuites: s.opts.TLS.CipherSuites, CurvePreferences: s.opts.TLS.Curves}
}

// configz shows the configuration in effect under the name that upstream has.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"kubeletconfig": s.opts.Config})
}

// setVerbosity sets the log level of this process to the number that is the request's body.
func setVerbosity(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(io.LimitReader(r.Body, 16))
	if err == nil {
		err = new(klog.Level).Set(strings.TrimSpace(string(text)))
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("failed to set klog.logging.verbosity %q", text), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "successfully set klog.logging.verbosity to %s", text)
}

// writeJSON answers with 200. The answer cannot change once it has begun, so that an error of
// writing says nothing.
func writeJSON(w http.ResponseWriter, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "encoding answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// podList has kind and version, which objects of a client's list lack.
func podList(pods []v1.Pod) *v1.PodList {
	return &v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods}
}

// pods lists the node's pods with their status as the kubelet knows it.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	pods := []v1.Pod{}
	for _, view := range s.opts.Pods() {
		pods = append(pods, *view.Pod)
	}
	writeJSON(w, podList(pods))
}

// runningPods lists the pods with containers that run, without the rest of their spec.
func (s *Server) runningPods(w http.ResponseWriter, _ *http.Request) {
	pods := []v1.Pod{}
	for _, view := range s.opts.Pods() {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: view.Pod.Name, Namespace: view.Pod.Namespace,
			UID: view.Pod.UID}}
		for _, c := range view.Pod.Spec.Containers {
			if view.Containers[c.Name].Running {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
			}
		}
		if len(p.Spec.Containers) > 0 {
			pods = append(pods, p)
		}
	}
	writeJSON(w, podList(pods))
}

// find returns the pod that the path of a request names: by name and, if it has one, by UID.
// A mirror pod that was made again has another UID; a path with the old one names nobody.
func (s *Server) find(r *http.Request) (pod.View, bool) {
	for _, view := range s.opts.Pods() {
		if view.Pod.Namespace == r.PathValue("ns") && view.Pod.Name == r.PathValue("pod") {
			if uid := r.PathValue("uid"); uid == "" || uid == string(view.Pod.UID) {
				return view, true
			}
		}
	}
	return pod.View{}, false
}
