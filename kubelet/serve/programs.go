package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// passed are the paths of a node's other programs that the kubelet passes on, by GET only: what they know and count.
// None of them changes anything.
var passed = []string{"status", "metrics", "diff", "healthz"}

// maxPassed bounds an answer; programTimeout is how long a program may take for it (/diff lists all of HNS).
const (
	maxPassed      = 16 << 20
	programTimeout = 20 * time.Second
)

// programClient asks programs of this node. It takes their answer as it is, a redirect too: followed, it would ask
// somebody else, and the answer would come with the rights of the kubelet's readers. No proxy of the environment is
// asked.
var programClient = &http.Client{Transport: &http.Transport{IdleConnTimeout: idleTimeout},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Programs are a node's other programs, which answer on its loopback only, without a credential. Through the kubelet
// their answers need the right to get nodes/proxy, as everything of the kubelet's that has no right of its own.
type Programs struct {
	// Addresses are those on the node's loopback, by the name below /porthole/.
	Addresses map[string]string
	// Facts reads this node's facts of the network, for /porthole/facts; nil: that answers 404.
	Facts func(context.Context) (any, error)
}

// Routes returns the endpoints for Options.Extra: /porthole/NAME/PATH for each program, and /porthole/facts.
func (p Programs) Routes() map[string]http.Handler {
	routes := map[string]http.Handler{"GET /porthole/{program}/{path}": http.HandlerFunc(p.passOn)}
	if p.Facts != nil {
		routes["GET /porthole/facts"] = http.HandlerFunc(p.facts)
	}
	return routes
}

// passOn answers with what the program answers, its status and type of content included; 404 for
// programs and paths that are not passed on, 502 for a program that does not answer.
func (p Programs) passOn(w http.ResponseWriter, r *http.Request) {
	address, known := p.Addresses[r.PathValue("program")]
	if !known || !slices.Contains(passed, r.PathValue("path")) {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), programTimeout)
	defer cancel()

	url := fmt.Sprintf("http://%s/%s", address, r.PathValue("path"))
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	resp, err := programClient.Do(req)
	if err != nil {
		http.Error(w, fmt.Sprintf("asking %s of this node: %v", r.PathValue("program"), err), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()

	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, maxPassed)) // an error means that the client is gone
}

// facts reads the facts within programTimeout.
func (p Programs) facts(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), programTimeout)
	defer cancel()
	facts, err := p.Facts(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, facts)
}
