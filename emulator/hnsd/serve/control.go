package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

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

// control is the interface that is not part of HNS: for the CNI shim, the command line and tests.
func (s *Service) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /netns", s.bindNetns)
	mux.HandleFunc("DELETE /netns/{id}", s.unbindNetns)
	mux.HandleFunc("GET /dump", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.dump(), nil) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		st := s.stats.get()
		st.Handles = s.handles.count()
		reply(w, st, nil)
	})
	mux.HandleFunc("POST /stats/reset", func(w http.ResponseWriter, _ *http.Request) { s.stats.reset(); reply(w, struct{}{}, nil) })
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) {
		drift, err := s.Verify(r.Context())
		reply(w, map[string]any{"drift": append([]dataplane.Drift{}, drift...)}, err)
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.faults.list(), nil) })
	mux.HandleFunc("POST /faults", s.setFaults)
	mux.HandleFunc("POST /lose", s.loseObjects)
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

func (s *Service) bindNetns(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Path string `json:"path"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || !strings.HasPrefix(q.Path, "/") {
		http.Error(w, `{"error":"the body is {\"path\": absolute path of a network namespace}"}`, http.StatusBadRequest)
		return
	}
	var id string
	err := s.write(r.Context(), func(state *hnsd.State) (next *hnsd.State, err error) {
		next, id, err = s.host.CreateGuest(state, q.Path)
		return next, err
	})
	reply(w, map[string]string{"id": id}, err)
}

// unbindNetns removes the HCN namespace, never the Linux one. Absent is success.
func (s *Service) unbindNetns(w http.ResponseWriter, r *http.Request) {
	id := strings.ToLower(r.PathValue("id"))
	err := s.write(r.Context(), func(state *hnsd.State) (*hnsd.State, error) {
		next, err := s.host.Delete(state, hnsd.Namespace, id)
		if errors.Is(err, hnsd.ErrElementNotFound) {
			return state, nil
		}
		return next, err
	})
	reply(w, struct{}{}, err)
}

func (s *Service) dump() Dump {
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

// setFaults replaces all rules by the list in the body; an empty list ends every fault.
func (s *Service) setFaults(w http.ResponseWriter, r *http.Request) {
	var rules []*Fault
	if err := json.NewDecoder(r.Body).Decode(&rules); err != nil {
		http.Error(w, `{"error":"the body is a list of fault rules"}`, http.StatusBadRequest)
		return
	}
	s.faults.set(rules)
	reply(w, s.faults.list(), nil)
}

// loseObjects takes {"kind":"LoadBalancer","count":1}; count 0 means all.
func (s *Service) loseObjects(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Kind  string `json:"kind"`
		Count int    `json:"count"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, `{"error":"the body is {\"kind\",\"count\"}"}`, http.StatusBadRequest)
		return
	}
	for k := hnsd.Network; k <= hnsd.Route; k++ {
		if strings.EqualFold(k.String(), q.Kind) {
			lost, err := s.lose(r.Context(), k, q.Count)
			reply(w, map[string]int{"lost": lost}, err)
			return
		}
	}
	http.Error(w, `{"error":"unknown kind"}`, http.StatusBadRequest)
}
