package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"porthole.dev/porthole/emulator/hnsd/fault"
)

// controls returns the control interface: what a test asks of the emulation itself, which has no counterpart in
// Windows.
func (s *Service) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /systems", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.systems, nil) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.calls.Get(), nil) })
	mux.HandleFunc("POST /stats/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.calls.Reset()
		reply(w, struct{}{}, nil)
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.faults.List(), nil) })
	mux.HandleFunc("POST /faults", s.setFaults)
	mux.HandleFunc("POST /reboot",
		func(w http.ResponseWriter, r *http.Request) { reply(w, struct{}{}, s.reboot(r.Context())) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, "ok", nil) })
	return mux
}

// actions of fault rules that calls of HCS have.
var actions = []string{"", "fail", "after", "drop", "hang", "mute"}

// setFaults replaces all rules by the list in the body; an empty list ends every fault.
func (s *Service) setFaults(w http.ResponseWriter, r *http.Request) {
	var rules []*fault.Rule
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&rules)
	for _, rule := range rules {
		if err == nil && rule != nil && !slices.Contains(actions, rule.Action) {
			err = fmt.Errorf("action %q: calls of HCS have %q", rule.Action, actions[1:])
		}
	}
	if err == nil {
		err = s.faults.Set(rules)
	}
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the caller has gone
		return
	}
	reply(w, s.faults.List(), nil)
}

// reply answers with v, or with the error's text and the status 500.
func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}
