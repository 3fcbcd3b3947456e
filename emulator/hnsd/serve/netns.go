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

// guests are the HCN namespaces that a container runtime is about to make, by id, with the paths of the Linux network namespaces for
// which they stand.
type guests struct {
	mu    sync.Mutex
	paths map[string]string
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

// path returns what was announced of a namespace; "" if nothing was.
func (g *guests) path(id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paths[id]
}

// made ends an announcement.
func (g *guests) made(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.paths, id)
}

// bindNetns says which Linux network namespace an HCN namespace stands for. With an id it is announced for HcnCreateNamespace, or
// noted if the namespace exists; without one the namespace is made, or found by the path, at once and without a call of HNS.
func (s controls) bindNetns(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || !strings.HasPrefix(q.Path, "/") {
		http.Error(w, `{"error":"the body is {\"path\": absolute path of a network namespace, \"id\": of an HCN namespace that is to be made}"}`, http.StatusBadRequest)
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
