package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"

	"porthole.dev/porthole/emulator/hnsd"
)

// guests are the announced HCN namespaces: a container runtime is about to make them, and has given the paths of the
// Linux network namespaces that they stand for.
type guests struct {
	mu    sync.Mutex
	paths map[string]string // by id
}

// expect announces a namespace. Announcements whose Linux namespace is gone are dropped.
func (g *guests) expect(id, path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paths == nil {
		g.paths = map[string]string{}
	}
	for id, path := range g.paths {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			delete(g.paths, id)
		}
	}
	g.paths[id] = path
}

// path returns the announced path of a namespace; "" if there is none.
func (g *guests) path(id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paths[id]
}

// made drops the announcement of a namespace that was made.
func (g *guests) made(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.paths, id)
}

// bindNetns tells hnsd which Linux network namespace an HCN namespace stands for. With an id the path is kept for
// HcnCreateNamespace, or recorded at once if the namespace exists. Without an id the namespace is found by the path or
// made, without a call of HNS.
func (s controls) bindNetns(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || !strings.HasPrefix(q.Path, "/") {
		http.Error(w,
			`{"error":"the body is {\"path\": absolute path of a network namespace, \"id\": of an HCN namespace that is to be made}"}`, http.StatusBadRequest)
		return
	}

	id := strings.ToLower(q.ID)
	if id != "" {
		s.guests.expect(id, q.Path)
	}
	err := s.write(r.Context(), func(state *hnsd.State) (next *hnsd.State, err error) {
		if id != "" {
			return state.Bind(id, q.Path), nil
		}
		next, id, err = s.host.CreateGuest(state, q.Path)
		return next, err
	})
	reply(w, map[string]string{"id": id}, err)
}

// unbindNetns removes the HCN namespace, never the Linux one. Absent is success.
func (s controls) unbindNetns(w http.ResponseWriter, r *http.Request) {
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
