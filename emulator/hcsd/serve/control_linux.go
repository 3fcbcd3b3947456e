package serve

import (
	"encoding/json"
	"net/http"
)

// controls returns the control interface: what a test asks of the emulation itself, which has no counterpart in Windows.
func (s *Service) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /systems", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		reply(w, s.systems, nil)
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.stats.get(), nil) })
	mux.HandleFunc("POST /stats/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.stats.reset()
		reply(w, struct{}{}, nil)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, "ok", nil) })
	return mux
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}
