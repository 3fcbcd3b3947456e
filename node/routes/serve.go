package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/routes/adapters"
	"porthole.dev/porthole/routes/hostroutes"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// Status is what /status answers.
type Status struct {
	Node    string `json:"node"`
	Mode    string `json:"mode"`
	PodCIDR string `json:"podCIDR,omitempty"`

	// Counts of routes.
	Wanted  int `json:"wanted"`
	Present int `json:"present"`
	Failed  int `json:"failed"`

	Problems []string `json:"problems,omitempty"` // each thing that is not right, with the reason
	Error    string   `json:"error,omitempty"`    // why the counts are not known
	// Network is why the pod network is not as it should be.
	Network string `json:"network,omitempty"`
	Repairs int    `json:"repairs"`
	// LastSync is when the routes were looked at and put right last; zero before the first time.
	LastSync time.Time          `json:"lastSync,omitzero"`
	Routes   []keep.RouteStatus `json:"routes"`
	// Peers are those with whom the node exchanges routes; only of modes that do so.
	Peers []keep.PeerStatus `json:"peers,omitempty"`
	// Adapters are the host's network adapters that carry packets of pods (Windows).
	Adapters *adapters.Status `json:"adapters,omitempty"`
	// HostRoutes are the host's own routes that are guarded after a change of HNS networks (Windows).
	HostRoutes *hostroutes.Status `json:"hostRoutes,omitempty"`
}

// status describes the pod network and the routes.
func (a *agent) status() Status {
	a.mu.Lock()
	network, keeper := a.network, a.keeper
	a.mu.Unlock()

	s := Status{Node: a.o.Node, Mode: a.o.Mode, Routes: []keep.RouteStatus{}}
	if network.PodCIDR.IsValid() {
		s.PodCIDR = network.PodCIDR.String()
	}
	if network.Err != "" {
		s.Network = network.Err
		s.Problems = append(s.Problems, "pod network: "+network.Err)
	}
	for _, d := range network.Differs {
		s.Problems = append(s.Problems,
			fmt.Sprintf("pod network: HNS reports it differently from how it was created: %s; it is used as it is", d))
	}
	if k := a.maker.adapters(); k != nil {
		if adapters := k.Status(); adapters.Known {
			s.Adapters = &adapters
			s.Problems = append(s.Problems, adapters.Problems...)
		}
	}
	if k := a.maker.hostRoutes(); k != nil {
		saved := k.Status()
		s.HostRoutes = &saved
		s.Problems = append(s.Problems, saved.Problems...)
	}
	if keeper == nil {
		s.Error = network.Err
		if s.Error == "" {
			s.Error = "the routes were not checked yet"
		}
		return s
	}

	s.add(keeper.Status())
	return s
}

// add adds the status of the routes.
func (s *Status) add(r keep.Status) {
	s.LastSync = r.LastSync
	s.Wanted = r.Wanted
	s.Present = r.Present
	s.Failed = r.Wanted - r.Present
	s.Error = r.Error
	s.Repairs = r.Repairs
	s.Routes = r.Routes
	s.Peers = r.Peers
	s.Problems = append(s.Problems, r.Problems...)
	for _, why := range r.Refused {
		s.Problems = append(s.Problems, "other nodes send nothing to pods of this node: "+why)
	}
	for _, route := range r.Routes {
		if route.State != string(table.Present) || route.Reason != "" {
			s.Problems = append(s.Problems,
				fmt.Sprintf("route to %s of node %s: %s: %s", route.Dst, route.Node, route.State, route.Reason))
		}
	}
}

// sessions returns how many of the peers have a session.
func (s Status) sessions() (n int) {
	for _, p := range s.Peers {
		if p.Up {
			n++
		}
	}
	return n
}

// unhealthy returns what is not as it should be; empty means healthy. A route that waits for what another node has not
// said counts only if waiting is true: this node can do nothing about it.
func (s Status) unhealthy(waiting bool) string {
	failed := s.Failed
	for _, r := range s.Routes {
		if !waiting && r.State == string(table.Waiting) {
			failed--
		}
	}
	switch {
	case s.Error != "":
		return s.Error
	case s.Network != "" || failed > 0 || s.PodCIDR == "" || s.Adapters != nil && len(s.Adapters.Problems) > 0:
		return strings.Join(s.Problems, "; ")
	}
	return ""
}

// serve serves status, health and metrics at an address, "" for none, until stop is called.
func serve(ctx context.Context, bind string, status func() Status) (stop func(), err error) {
	if bind == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("serving status at %s (--bind): %w", bind, err)
	}

	mux := http.NewServeMux()
	health := func(waiting bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if why := status().unhealthy(waiting); why != "" {
				http.Error(w, why, http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		}
	}
	mux.HandleFunc("GET /healthz", health(false))
	mux.HandleFunc("GET /readyz", health(true))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		httpserve.AnswerNews(w, r, func() []byte {
			text, _ := json.MarshalIndent(status(), "", "  ") // a Status has nothing that JSON cannot say
			return append(text, '\n')
		})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics(status), promhttp.HandlerOpts{}))

	return httpserve.Start(listener, mux, func(err error) {
		klog.FromContext(ctx).Error(err, "Serving status ended", "address", bind)
	}), nil
}

// metrics returns the metrics of routes. Each is read from the status when it is asked for, so that both always agree.
func metrics(status func() Status) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	gauge := func(name, help string, value func(Status) int) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return float64(value(status()))
		}))
	}
	gauge("porthole_routes_wanted", "Routes to other nodes that should be there.",
		func(s Status) int { return s.Wanted })
	gauge("porthole_routes_present", "Routes to other nodes that are there.", func(s Status) int { return s.Present })
	gauge("porthole_routes_failed", "Routes to other nodes that should be there and are not.",
		func(s Status) int { return s.Failed })

	gauge("porthole_routes_adapter_problems",
		"Things that are wrong with the host's adapters, so that pods do not reach other nodes.", func(s Status) int {
			if s.Adapters == nil {
				return 0
			}
			return len(s.Adapters.Problems)
		})

	gauge("porthole_routes_peers", "Peers that this node should have sessions with; 0 in modes without.",
		func(s Status) int { return len(s.Peers) })
	gauge("porthole_routes_sessions", "Peers that this node has sessions with.",
		func(s Status) int { return s.sessions() })

	registry.MustRegister(collectors.NewGoCollector(), prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: "porthole_routes_repairs_total",
			Help: "Routes that were put back after they had been there."},
		func() float64 { return float64(status().Repairs) }))
	return registry
}
