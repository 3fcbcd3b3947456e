package health

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"porthole.dev/porthole/internal/httpserve"
)

// answer is the body of /healthz, /livez and /readyz: upstream's fields (pkg/proxy/healthcheck, ProxyHealth), and ours.
type answer struct {
	// LastUpdated is now if all is well, as upstream has it; else when the last pass ended.
	LastUpdated time.Time `json:"lastUpdated"`
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is nil except in /healthz.
	NodeEligible *bool             `json:"nodeEligible,omitempty"`
	Healthy      bool              `json:"healthy"`
	Status       map[string]family `json:"status,omitempty"`
	// Reasons say why it is not healthy; upstream has no such field.
	Reasons []string `json:"reasons,omitempty"`
}

type family struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// reply answers with 200, or with 503 if there are reasons or the node is not eligible. A nil eligible does not count.
func (s *Server) reply(w http.ResponseWriter, counter *prometheus.CounterVec, reasons []string, eligible *bool) {
	s.mu.Lock()
	updated := s.ended
	s.mu.Unlock()

	a := answer{LastUpdated: updated, CurrentTime: s.options.Now(), Healthy: len(reasons) == 0, NodeEligible: eligible,
		Reasons: reasons, Status: map[string]family{}}
	for _, name := range s.options.Families {
		a.Status[name] = family{LastUpdated: updated, Healthy: a.Healthy}
	}

	code := http.StatusOK
	if !a.Healthy || eligible != nil && !*eligible {
		code = http.StatusServiceUnavailable
	} else {
		a.LastUpdated = a.CurrentTime
	}
	if counter != nil {
		counter.WithLabelValues(strconv.Itoa(code)).Inc()
	}
	writeJSON(w, code, a)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}

// HealthHandler serves
//
//	/healthz  200 while the host can be observed (60 s of grace) and the node is to have traffic, as upstream
//	/livez    200 while the loop runs; a restart could help if it does not
//	/readyz   200 after one complete pass, while no service has been without its load balancers for 30 s
//
// Bodies are JSON as upstream's, with the reasons added.
func (s *Server) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		eligible := s.eligible()
		s.reply(w, s.metrics.healthz, s.unhealthy(), &eligible)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, s.metrics.livez, s.dead(), nil)
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, nil, s.unready(), nil) })
	return mux
}

// Pages are further contents of the metrics address. All are optional.
type Pages struct {
	// Config is shown at /configz.
	Config any
	// Diff lists the host and compares it with what is wanted, for /diff; its result is shown as JSON.
	Diff func(context.Context) (any, error)
	// Profiling serves /debug/pprof.
	Profiling bool
}

// MetricsHandler serves /metrics, /healthz, /proxyMode, /status and the pages.
func (s *Server) MetricsHandler(p Pages) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.Handle("/healthz", s.HealthHandler())
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write([]byte(s.options.Mode))
	})
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		limit := statusShown
		if query.Has("all") {
			limit = -1
		}
		httpserve.AnswerNews(w, r, func() []byte {
			// A Status has nothing that JSON cannot say.
			text, _ := json.Marshal(s.Status(StatusQuery{Service: query.Get("service"), Limit: limit,
				All: query.Has("all")}))
			return append(text, '\n')
		})
	})

	if p.Config != nil {
		mux.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]any{"kubeproxy.config.k8s.io": p.Config})
		})
	}
	if p.Diff != nil {
		mux.HandleFunc("/diff", func(w http.ResponseWriter, r *http.Request) {
			diff, err := p.Diff(r.Context())
			if err != nil {
				writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
				return
			}
			writeJSON(w, http.StatusOK, diff)
		})
	}

	if p.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// statusShown bounds each list of /status, unless ?all is asked for.
const statusShown = 200

// Status is the document at /status.
type Status struct {
	// At is when the last pass ended, Took how long it lasted in nanoseconds.
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	// Observed is when the host was last listed; Ready says that one pass was complete.
	Observed time.Time `json:"observed"`
	Ready    bool      `json:"ready"`
	// Error says why the host could not be observed; "" if it could.
	Error string `json:"error,omitempty"`
	// Wanted counts frontends with backends, Programmed those that are served as wanted.
	Wanted     int `json:"wanted"`
	Programmed int `json:"programmed"`
	// Services counts services by state.
	Services map[State]int `json:"services"`
	// Failed and Pending are the services that are not as wanted; Unserved is what can never be served as it is
	// written.
	Failed   []ServiceLine `json:"failed,omitempty"`
	Pending  []ServiceLine `json:"pending,omitempty"`
	Unserved []ServiceLine `json:"unserved,omitempty"`
	// Right are the others; listed only if all are asked for.
	Right []ServiceLine `json:"right,omitempty"`
	// Omitted counts the lines that a limit left out.
	Omitted int `json:"omitted,omitempty"`
}

// ServiceLine is one service in Status, or in the status of a node that repeats it.
type ServiceLine struct {
	Service string `json:"service"`
	// State is "" for what the node can never serve as the service is written.
	State State `json:"state,omitempty"`
	// Frontends counts those with backends, Programmed those of them that are as wanted.
	Frontends  int    `json:"frontends,omitempty"`
	Programmed int    `json:"programmed,omitempty"`
	Reason     string `json:"reason,omitempty"` // one CamelCase word
	Message    string `json:"message,omitempty"`
	Code       string `json:"code,omitempty"` // of HNS, hexadecimal
	// Since is when the service became programmed, or stopped being so.
	Since time.Time `json:"since,omitzero"`
	// Failures counts the attempts in a row that failed for this reason.
	Failures int `json:"failures,omitempty"`
}

// String says in one line what is wrong with the service.
func (l ServiceLine) String() string {
	s := "service " + l.Service
	if l.State != "" {
		s += fmt.Sprintf(" is %s since %s", l.State, l.Since.Format(time.RFC3339))
	}
	if l.Failures > 1 {
		s += fmt.Sprintf(" (%d attempts, it is tried again)", l.Failures)
	}
	for _, part := range []string{l.Reason, l.Message, l.Code} {
		if part != "" && !strings.Contains(s, part) { // most messages have the code in them
			s += ": " + part
		}
	}
	return s
}

// StatusQuery chooses what Status shows.
type StatusQuery struct {
	Service string // namespace/name; "" for all
	Limit   int    // of each list; negative for none
	All     bool   // list programmed services too
}

// Status returns the state of everything. Its cost grows with the services that are not programmed, unless all are
// asked for.
func (s *Server) Status(q StatusQuery) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{At: s.ended, Took: s.last.Took, Observed: s.last.Observed, Ready: s.last.Ready,
		Wanted: s.last.Wanted, Programmed: s.last.Programmed, Services: map[State]int{}}
	if s.last.Err != nil {
		out.Error = s.last.Err.Error()
	}

	for _, state := range []State{Programmed, Pending, Failed} {
		out.Services[state] = s.table.count[state]
	}
	show := func(name string) {
		r, known := s.table.all[name]
		if !known || q.Service != "" && q.Service != name {
			return
		}
		switch line := s.table.line(name, r); r.state {
		case Failed:
			out.Failed = append(out.Failed, line)
		case Pending:
			out.Pending = append(out.Pending, line)
		default:
			out.Right = append(out.Right, line)
		}
	}

	switch {
	case q.Service != "":
		show(q.Service)
	case q.All:
		for name := range s.table.all {
			show(name)
		}
	default:
		for name := range s.table.bad {
			show(name)
		}
	}

	for name, problems := range s.table.withProblems {
		for _, p := range problems {
			if q.Service == "" || q.Service == name {
				out.Unserved = append(out.Unserved, ServiceLine{Service: name, Reason: p.Reason, Message: p.Text})
			}
		}
	}

	out.sortAndCut(q.Limit)
	return out
}

// sortAndCut sorts each list by service, and leaves at most limit lines of it: the others are counted as omitted. A
// negative limit omits nothing.
func (s *Status) sortAndCut(limit int) {
	for _, list := range []*[]ServiceLine{&s.Failed, &s.Pending, &s.Unserved, &s.Right} {
		slices.SortFunc(*list, func(a, b ServiceLine) int {
			return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Reason, b.Reason),
				cmp.Compare(a.Message, b.Message))
		})
		if n := len(*list); limit >= 0 && n > limit {
			s.Omitted += n - limit
			*list = (*list)[:limit]
		}
	}
}

func (t *table) line(name string, r record) ServiceLine {
	l := ServiceLine{Service: name, State: r.state, Frontends: int(r.frontends), Programmed: int(r.programmed),
		Since: time.Unix(0, r.since).UTC()}
	if bad, is := t.bad[name]; is {
		l.Since = time.Unix(0, bad).UTC()
	}
	if r.detail != nil {
		l.Reason = r.detail.reason
		l.Message = r.detail.message
		l.Failures = r.detail.failures
		if r.detail.code != 0 {
			l.Code = "0x" + strconv.FormatUint(uint64(r.detail.code), 16)
		}
	}
	return l
}
