package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/latency"
)

// Dump is everything that HNS has.
type Dump struct {
	Version       string     `json:"version"`
	Networks      []hnsd.Doc `json:"networks"`
	Endpoints     []hnsd.Doc `json:"endpoints"`
	Namespaces    []hnsd.Doc `json:"namespaces"`
	LoadBalancers []hnsd.Doc `json:"loadBalancers"`
	Routes        []hnsd.Doc `json:"routes"`
	// Netns gives the Linux network namespace of each HCN namespace that a container runtime brought.
	Netns map[string]string `json:"netns"`
}

// DNSRequest is the body of POST /dns, and the answer to it and to GET /dns. Without servers (null) the host has those
// of the machine.
type DNSRequest struct {
	Servers DNSServers `json:"servers"`
}

// The bodies of requests that have no type of their own.
type (
	netnsRequest struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	}
	firewallRequest struct{ On bool }
	latencyRequest  struct {
		Profile string `json:"profile"`
	}
	scenarioRequest struct {
		Name string `json:"name"`
	}
)

// controls returns the control interface of the daemon, which is not part of HNS: what the CNI shim, a test or
// `porthole host hns` asks of the emulation itself. Faults that change over time go on until ctx ends, not only until
// the request does.
func (s *Service) controls(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	get := func(path string, f func() any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { reply(w, f(), nil) })
	}
	get("/dump", func() any { return s.dump() })
	get("/stats", func() any { return s.stats() })
	get("/faults", func() any { return s.faults.List() })
	get("/latency", func() any { return s.latency.Report() })
	get("/service", func() any { return s.life.status() })
	get("/dns", func() any { return DNSRequest{Servers: s.stack.DNS()} })
	get("/pool", func() any { return s.ports.State(s.objects.State().PortBlocks()) })
	get("/scenarios", func() any { return Scenarios() })
	get("/healthz", func() any { return "ok" })
	mux.HandleFunc("GET /rules/{id}", func(w http.ResponseWriter, r *http.Request) {
		rules, err := rulesOf(r.Context(), s.objects.State(), s.plane, r.PathValue("id"))
		reply(w, rules, err)
	})
	mux.HandleFunc("DELETE /netns/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, s.unbindNetns(r.Context(), r.PathValue("id")))
	})

	s.handlePlain(mux)
	s.handleRequests(ctx, mux)
	return mux
}

// handlePlain adds what is done without a body.
// Numbers of calls and injected times are reset together, since they are compared.
func (s *Service) handlePlain(mux *http.ServeMux) {
	mux.HandleFunc("POST /stats/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.calls.Reset()
		s.latency.Reset()
		reply(w, struct{}{}, nil)
	})
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) {
		drift, err := s.Verify(r.Context())
		// The list is never null in JSON.
		reply(w, map[string]any{"drift": append([]kernel.Drift{}, drift...)}, err)
	})
	mux.HandleFunc("POST /repair", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, s.losses.repair(r.Context()))
	})
}

// handleRequests adds what is done with a body. ctx is the daemon's: some go on after the request.
func (s *Service) handleRequests(ctx context.Context, mux *http.ServeMux) {
	mux.HandleFunc("POST /netns", func(w http.ResponseWriter, r *http.Request) {
		var q netnsRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || !strings.HasPrefix(q.Path, "/") {
			http.Error(w, `{"error":"the body is {\"path\": absolute path of a network namespace, `+
				`\"id\": of an HCN namespace that is to be made}"}`, http.StatusBadRequest)
			return
		}
		id, err := s.bindNetns(r.Context(), q.ID, q.Path)
		reply(w, map[string]string{"id": id}, err)
	})
	mux.HandleFunc("POST /faults", with("a list of fault rules", func(_ context.Context, rules []*Fault) (any, error) {
		err := s.faults.Set(rules)
		return s.faults.List(), refused(err)
	}))
	mux.HandleFunc("POST /lose", with(`{"kind", "count", "percent", "match", "planeOnly", "renew"}`,
		func(ctx context.Context, q LoseRequest) (any, error) {
			ids, err := s.losses.lose(ctx, q)
			return map[string]any{"lost": len(ids), "ids": ids}, err
		}))
	mux.HandleFunc("POST /reboot", with(`{"keep": […], "lose": […]}`,
		func(ctx context.Context, q RebootRequest) (any, error) {
			// A request that makes no sense must not stop the service.
			if _, err := lostInReboot(q); err != nil {
				return nil, refused(err)
			}
			return s.reboot(ctx, q)
		}))
	mux.HandleFunc("POST /latency", with(`{"profile"}`, func(_ context.Context, q latencyRequest) (any, error) {
		table, err := latency.Of(q.Profile)
		if err != nil {
			return nil, refused(err)
		}
		s.latency.Set(table)
		return s.latency.Report(), nil
	}))
	mux.HandleFunc("POST /service", with(`{"state", "keep", "lose", "forMs"}`,
		func(_ context.Context, q ServiceRequest) (any, error) {
			err := s.life.request(ctx, q)
			return s.life.status(), refused(err)
		}))

	mux.HandleFunc("POST /firewall", with(`{"on": true} or {"on": false}`,
		func(ctx context.Context, q firewallRequest) (any, error) { return struct{}{}, s.walls.turn(ctx, q.On) }))
	mux.HandleFunc("POST /dns", with(`{"servers": ["10.99.0.53"]}, with [] for none and null for those of this machine`,
		func(_ context.Context, q DNSRequest) (any, error) {
			if err := q.Servers.Check(); err != nil {
				return nil, refused(err)
			}
			s.stack.SetDNS(q.Servers)
			return q, nil
		}))
	mux.HandleFunc("POST /pool", with(`{"size"} or {"free"}`, func(_ context.Context, q PoolRequest) (any, error) {
		err := s.setPorts(q)
		return s.ports.State(s.objects.State().PortBlocks()), refused(err)
	}))
	mux.HandleFunc("POST /scenario", with(`{"name": "F-n"}`, func(_ context.Context, q scenarioRequest) (any, error) {
		row, err := Scenario(q.Name)
		if err == nil {
			err = s.play(ctx, row)
		}
		return row, refused(err)
	}))
}

// refusal is the error of a request that makes no sense.
type refusal struct{ error }

// refused marks an error as the caller's fault; nil stays nil.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return refusal{err}
}

// with decodes the body of a request, carries it out and replies. The answer to a body that cannot be decoded says what
// it should have been.
func with[Q any](form string, f func(context.Context, Q) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		var answer any
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		err := d.Decode(&q)
		if err != nil {
			err = refused(fmt.Errorf("%w; the body is %s", err, form))
		} else {
			answer, err = f(r.Context(), q)
		}
		reply(w, answer, err)
	}
}

// reply writes v, or the error with status 400 for what the caller did wrong and 500 for everything
// else.
func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code := http.StatusInternalServerError
		if r := (refusal{}); errors.As(err, &r) {
			code = http.StatusBadRequest
		}
		w.WriteHeader(code)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}

// dump returns all objects as they are kept, by kind. Lists are never nil, so that their JSON is never null.
func (s *Service) dump() Dump {
	state := s.objects.State()
	d := Dump{Version: s.host.Profile.Version.String(), Netns: map[string]string{}}
	for k, list := range map[hnsd.Kind]*[]hnsd.Doc{hnsd.Network: &d.Networks, hnsd.Endpoint: &d.Endpoints,
		hnsd.Namespace: &d.Namespaces, hnsd.LoadBalancer: &d.LoadBalancers, hnsd.Route: &d.Routes} {
		*list = []hnsd.Doc{}
		for _, o := range state.List(k) {
			*list = append(*list, o.Doc)
			if o.Path != "" {
				d.Netns[o.ID] = o.Path
			}
		}
	}
	return d
}
