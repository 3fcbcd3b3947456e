package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd"
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

// controls answers the interface that is not part of HNS: for the CNI shim, the command line and tests.
type controls struct{ *Service }

// handler returns the control interface of the daemon: what a test or `porthole host hns` asks of the emulation
// itself, which has no counterpart in Windows. Faults that change over time go on until ctx ends, not only until the
// request does.
func (s controls) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /netns", s.bindNetns)
	mux.HandleFunc("DELETE /netns/{id}", s.unbindNetns)
	mux.HandleFunc("GET /dump", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.dump(), nil) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, s.stats(), nil)
	})

	mux.HandleFunc("POST /stats/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.calls.Reset()
		s.latency.reset()
		reply(w, struct{}{}, nil)
	})

	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) {
		drift, err := s.Verify(r.Context())
		reply(w, map[string]any{"drift": append([]dataplane.Drift{}, drift...)}, err)
	})

	mux.HandleFunc("GET /rules/{id}", s.showRules)
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.faults.List(), nil) })
	mux.HandleFunc("POST /faults", s.setFaults)
	mux.HandleFunc("POST /lose", s.loseObjects)
	mux.HandleFunc("POST /reboot", s.rebootHost)
	mux.HandleFunc("POST /repair",
		func(w http.ResponseWriter, r *http.Request) { reply(w, struct{}{}, s.repair(r.Context())) })
	mux.HandleFunc("GET /latency", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.latency.report(), nil) })
	mux.HandleFunc("POST /latency", s.setLatency)
	mux.HandleFunc("GET /service", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.life.status(), nil) })
	mux.HandleFunc("POST /service", func(w http.ResponseWriter, r *http.Request) { s.changeService(ctx, w, r) })
	mux.HandleFunc("POST /firewall", s.turnFirewall)
	mux.HandleFunc("GET /dns", s.showDNS)
	mux.HandleFunc("POST /dns", s.changeDNS)
	mux.HandleFunc("GET /pool", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.poolState(), nil) })
	mux.HandleFunc("POST /pool", s.changePool)
	mux.HandleFunc("GET /scenarios", func(w http.ResponseWriter, _ *http.Request) { reply(w, Scenarios(), nil) })
	mux.HandleFunc("POST /scenario", func(w http.ResponseWriter, r *http.Request) { s.playScenario(ctx, w, r) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, "ok", nil) })
	return mux
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		v = map[string]string{"error": err.Error()}
	}
	json.NewEncoder(w).Encode(v)
}

// dump returns all objects as they are kept, by kind. Lists are never nil, so that their JSON is never null.
func (s controls) dump() Dump {
	state := s.state.Load()
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

// turnFirewall switches the host's inbound firewall on or off until hnsd ends.
func (s controls) turnFirewall(w http.ResponseWriter, r *http.Request) {
	var q struct{ On bool }
	if decode(w, r, &q, `{"on": true} or {"on": false}`) {
		reply(w, struct{}{}, s.walls.turn(r.Context(), q.On))
	}
}

// decode reads the body; false: the answer says what it should have been.
func decode(w http.ResponseWriter, r *http.Request, into any, form string) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		refuse(w, fmt.Errorf("%w; the body is %s", err, form))
		return false
	}
	return true
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// setFaults replaces all rules by the list in the body; an empty list ends every fault.
func (s controls) setFaults(w http.ResponseWriter, r *http.Request) {
	var rules []*Fault
	if !decode(w, r, &rules, "a list of fault rules") {
		return
	}
	if err := s.faults.Set(rules); err != nil {
		refuse(w, err)
		return
	}
	reply(w, s.faults.List(), nil)
}

func (s controls) loseObjects(w http.ResponseWriter, r *http.Request) {
	var q LoseRequest
	if !decode(w, r, &q, `{"kind", "count", "percent", "match", "planeOnly", "renew"}`) {
		return
	}
	ids, err := s.lose(r.Context(), q)
	reply(w, map[string]any{"lost": len(ids), "ids": ids}, err)
}

func (s controls) setLatency(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Profile string `json:"profile"`
	}
	if !decode(w, r, &q, `{"profile"}`) {
		return
	}
	table, err := LatencyOf(q.Profile)
	if err != nil {
		refuse(w, err)
		return
	}
	s.latency.set(table)
	reply(w, s.latency.report(), nil)
}

// changeService changes the service's state; ctx is the daemon's.
func (s controls) changeService(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var q ServiceRequest
	if !decode(w, r, &q, `{"state", "keep", "lose", "forMs"}`) {
		return
	}
	if err := s.setService(ctx, q); err != nil {
		refuse(w, err)
		return
	}
	reply(w, s.life.status(), nil)
}

func (s controls) changePool(w http.ResponseWriter, r *http.Request) {
	var q PoolRequest
	if !decode(w, r, &q, `{"size"} or {"free"}`) {
		return
	}
	if err := s.setPool(q); err != nil {
		refuse(w, err)
		return
	}
	reply(w, s.poolState(), nil)
}

// playScenario makes a row of the catalogue happen; ctx is the daemon's.
func (s controls) playScenario(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var q struct {
		Name string `json:"name"`
	}
	if !decode(w, r, &q, `{"name": "F-n"}`) {
		return
	}
	row, err := Scenario(q.Name)
	if err == nil {
		err = s.play(ctx, row)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, row, nil)
}
