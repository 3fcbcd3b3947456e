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
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/kubelet/pod"
)

// Limits of one connection, upstream's: a stream (logs, exec) may last as long as streamTimeout.
const (
	streamTimeout = 4 * time.Hour
	idleTimeout   = 90 * time.Second
)

// Server serves one node.
type Server struct {
	opts  Options
	certs func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	guard *guard
	stats *sampler
	// metrics are those that the runtime measures itself; its ask is nil if there is no runtime to ask.
	metrics latest[[]RuntimeMetric]
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
	s := &Server{opts: opts, certs: certs, guard: newGuard(opts.Auth, opts.NodeName), stats: newSampler(opts)}
	if opts.Stats != nil {
		s.metrics.ask, s.metrics.maxAge = opts.Stats.Metrics, statsAge
	}
	return s, nil
}

// Run listens and serves until ctx ends or listening fails. It returns nil when ctx ended.
func (s *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.opts.Address)
	if err != nil {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	failed := make(chan error, 2)
	if s.opts.HealthAddress != "-" {
		health, err := net.Listen("tcp", s.opts.HealthAddress)
		if err != nil {
			listener.Close()
			return fmt.Errorf("serving health: %w", err)
		}
		defer httpserve.Start(health, muxOf(s.healthRoutes()), func(err error) { failed <- err })()
	}

	server := &http.Server{Handler: s.Handler(), TLSConfig: s.tlsConfig(),
		ReadTimeout: streamTimeout, WriteTimeout: streamTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 1 << 20}
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

// tlsConfig returns a configuration that asks clients for a certificate, but does not insist: they may have a token.
func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{GetCertificate: s.certs, ClientAuth: tls.RequestClientCert, MinVersion: max(s.opts.TLS.MinVersion, tls.VersionTLS12),
		CipherSuites: s.opts.TLS.CipherSuites}
}

// Handler returns everything that is served on the TLS port, behind authentication and authorization.
func (s *Server) Handler() http.Handler {
	return s.guard.wrap(muxOf(s.routes()))
}

func muxOf(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.pattern, r.handler)
	}
	return mux
}

// route is one endpoint, with a pattern of http.ServeMux.
type route struct {
	pattern string
	handler http.HandlerFunc
}

// routes returns all endpoints.
func (s *Server) routes() []route {
	list := append(s.healthRoutes(),
		route{"GET /pods", s.pods}, route{"GET /pods/{$}", s.pods},
		route{"GET /stats/summary", s.summary}, route{"POST /stats/summary", s.summary},
		route{"GET /metrics", s.metricsOf(s.opts.Metrics)},
		route{"GET /metrics/probes", s.metricsOf(s.opts.ProbeMetrics)},
		route{"GET /metrics/resource", s.resourceMetrics},
		route{"GET /metrics/cadvisor", s.containerMetrics},
		route{"GET /configz", s.configz},
		route{"GET /statusz", s.statusPage},
		route{"GET /flagz", s.flagPage})
	list = append(list, s.debugRoutes()...)
	list = append(list, s.logRoutes()...)
	list = append(list, s.profileRoutes()...)
	for pattern, h := range s.opts.extra {
		list = append(list, route{pattern, h.ServeHTTP})
	}
	return list
}

// debugRoutes returns the endpoints that act on containers. If they are switched off, they answer so.
func (s *Server) debugRoutes() []route {
	if s.opts.NoDebugging {
		off := disabled("Debug endpoints are disabled.")
		var list []route
		for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods/", "/checkpoint/", "/debug/flags/v"} {
			list = append(list, route{path, off})
		}
		return list
	}

	list := []route{
		{"GET /runningpods/", s.runningPods},
		{"GET /containerLogs/{ns}/{pod}/{container}", s.containerLogs},
		{"POST /run/{ns}/{pod}/{container}", s.runCommand}, {"POST /run/{ns}/{pod}/{uid}/{container}", s.runCommand},
		{"POST /checkpoint/{ns}/{pod}/{container}", s.checkpoint},
	}
	if s.opts.NoFlagChanges {
		list = append(list, route{"/debug/flags/v", disabled("flags endpoint is disabled.")})
	} else {
		list = append(list, route{"PUT /debug/flags/v", setVerbosity})
	}

	for _, method := range []string{"GET ", "POST "} {
		for _, kind := range []string{"exec", "attach"} {
			list = append(list, route{method + "/" + kind + "/{ns}/{pod}/{container}", s.execOrAttach},
				route{method + "/" + kind + "/{ns}/{pod}/{uid}/{container}", s.execOrAttach})
		}
		list = append(list, route{method + "/portForward/{ns}/{pod}", s.portForward}, route{method + "/portForward/{ns}/{pod}/{uid}", s.portForward})
	}
	return list
}

func (s *Server) logRoutes() []route {
	if s.opts.LogsDir == "" || s.opts.NoDebugging {
		return []route{{"/logs/", disabled("logs endpoint is disabled.")}}
	}
	return []route{{"GET /logs/", s.nodeLogs}}
}

func (s *Server) profileRoutes() []route {
	if s.opts.NoProfiling || s.opts.NoDebugging {
		return []route{{"/debug/pprof/", disabled("profiling endpoint is disabled.")}}
	}
	return []route{{"GET /debug/pprof/", pprof.Index}, {"GET /debug/pprof/cmdline", pprof.Cmdline}, {"GET /debug/pprof/profile", pprof.Profile},
		{"GET /debug/pprof/symbol", pprof.Symbol}, {"GET /debug/pprof/trace", pprof.Trace}}
}

// disabled answers that an endpoint is switched off, with upstream's code and text.
func disabled(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, http.StatusMethodNotAllowed) }
}

// metricsOf serves the metrics of a registry, none if it is nil.
func (s *Server) metricsOf(from prometheus.Gatherer) http.HandlerFunc {
	if from == nil {
		from = prometheus.NewRegistry()
	}
	return promhttp.HandlerFor(from, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP
}

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

func (s *Server) healthRoutes() []route {
	check := func(w http.ResponseWriter, _ *http.Request) {
		if s.opts.Healthy != nil {
			if err := s.opts.Healthy(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = w.Write([]byte("ok"))
	}
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }
	return []route{{"GET /healthz", check}, {"GET /readyz", check}, {"GET /healthz/ping", ok}, {"GET /healthz/log", ok}, {"GET /healthz/syncloop", check}}
}

func writeJSON(w http.ResponseWriter, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "encoding answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func podList(pods []v1.Pod) *v1.PodList {
	return &v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods}
}

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
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: view.Pod.Name, Namespace: view.Pod.Namespace, UID: view.Pod.UID}}
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
