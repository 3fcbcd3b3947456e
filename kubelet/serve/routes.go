package serve

import (
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler returns everything that is served on the TLS port, behind authentication and authorization.
func (s *Server) Handler() http.Handler {
	return s.requests.count("readwrite", s.guard.wrap(muxOf(s.routes())))
}

// muxOf panics if two patterns conflict, which is a fault of the program.
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

// readOnlyRoutes returns the endpoints of the read-only port, at which nobody is asked who he is: those that change
// nothing and show neither output of containers nor the configuration. The others answer that they are switched off
// there.
func readOnlyRoutes(s *Server) []route {
	return append(openRoutes(s), debugOff()...)
}

// openRoutes returns the endpoints that both ports have.
func openRoutes(s *Server) []route {
	return append(s.healthRoutes(),
		route{"GET /pods", s.pods}, route{"GET /pods/{$}", s.pods},
		route{"GET /stats/summary", s.summary}, route{"POST /stats/summary", s.summary},
		route{"GET /metrics", s.metricsOf(withOwn(s, s.opts.Metrics))},
		route{"GET /metrics/probes", s.metricsOf(s.opts.ProbeMetrics)},
		route{"GET /metrics/slis", s.metricsOf(s.slis.registry)}, route{"DELETE /metrics/slis", s.slis.reset},
		route{"GET /metrics/resource", s.resourceMetrics},
		route{"GET /metrics/cadvisor", s.containerMetrics})
}

// routes returns all endpoints.
func (s *Server) routes() []route {
	list := append(openRoutes(s),
		route{"GET /configz", s.configz},
		route{"GET /statusz", s.statusPage},
		route{"GET /flagz", s.flagPage})
	list = append(list, s.debugRoutes()...)
	list = append(list, s.logRoutes()...)
	list = append(list, s.profileRoutes()...)
	// A pattern of Extra must not conflict with ours.
	for pattern, h := range s.opts.Extra {
		list = append(list, route{pattern, h.ServeHTTP})
	}
	return list
}

// debugRoutes returns the endpoints that act on containers. If they are switched off, they answer so.
func (s *Server) debugRoutes() []route {
	if s.opts.NoDebugging {
		return debugOff()
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
		list = append(list, route{method + "/portForward/{ns}/{pod}", s.portForward},
			route{method + "/portForward/{ns}/{pod}/{uid}", s.portForward})
	}
	return list
}

// debugOff answers for every method below these paths.
func debugOff() (list []route) {
	off := disabled("Debug endpoints are disabled.")
	for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods/",
		"/checkpoint/", "/debug/flags/v"} {
		list = append(list, route{path, off})
	}
	return list
}

// logRoutes and profileRoutes answer 405 for what is switched off.
func (s *Server) logRoutes() []route {
	if s.opts.Logs.Dir == "" || s.opts.NoDebugging {
		return []route{{"/logs/", disabled("logs endpoint is disabled.")}}
	}
	return []route{{"GET /logs/", s.nodeLogs}}
}

func (s *Server) profileRoutes() []route {
	if s.opts.NoProfiling || s.opts.NoDebugging {
		return []route{{"/debug/pprof/", disabled("profiling endpoint is disabled.")}}
	}
	return []route{{"GET /debug/pprof/", pprof.Index}, {"GET /debug/pprof/cmdline", pprof.Cmdline},
		{"GET /debug/pprof/profile", pprof.Profile},
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
