package control

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCall: answers are decoded, refusals are errors with what HNS said, and an HNS that does not run is told apart.
func TestCall(t *testing.T) {
	dir := t.TempDir()
	if err := Host(dir).Call(t.Context(), "GET", "/stats", nil, nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := net.Listen("unix", Socket(dir))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/netns":
			w.Write([]byte(`{"id":"x"}`))
		case "/faults":
			http.Error(w, `{"error":"rule 1 is empty"}`, http.StatusBadRequest)
		default:
			http.NotFound(w, r)
		}
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()

	var made struct{ ID string }
	if err := Host(dir).Call(t.Context(), "POST", "/netns", map[string]string{"path": "/p"}, &made); err != nil ||
		made.ID != "x" {
		t.Errorf("got %+v, %v", made, err)
	}
	var refused *Error
	if err := Host(dir).Call(t.Context(), "POST", "/faults", nil, nil); !errors.As(err, &refused) ||
		refused.Status != 400 || refused.Text != "rule 1 is empty" {
		t.Errorf("refusal: %v", err)
	}
	if err := Host(dir).Call(t.Context(), "GET", "/other", nil, nil); !errors.As(err, &refused) ||
		refused.Status != 404 {
		t.Errorf("unknown path: %v", err)
	}
}
