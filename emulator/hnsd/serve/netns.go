package serve

import (
	"context"
	"errors"
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
	// There is no other moment at which hnsd hears that a runtime has given up.
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

// bindNetns tells hnsd which Linux network namespace an HCN namespace stands for, and returns the latter's id. With an
// id the path is kept for HcnCreateNamespace, or recorded at once if the namespace exists. Without an id the namespace
// is found by the path or made, without a call of HNS.
func (s *Service) bindNetns(ctx context.Context, id, path string) (string, error) {
	// Runtimes spell ids in upper case as well.
	id = strings.ToLower(id)
	given := id != ""
	if given {
		s.guests.expect(id, path)
	}
	err := s.objects.Change(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
		if given {
			return state.Bind(id, path), nil
		}
		next, id, err = s.host.CreateGuest(state, path)
		return next, err
	})
	return id, err
}

// unbindNetns removes the HCN namespace, never the Linux one. Absent is success.
func (s *Service) unbindNetns(ctx context.Context, id string) error {
	return s.objects.Change(ctx, func(state *hnsd.State) (*hnsd.State, error) {
		next, err := s.host.Delete(state, hnsd.Namespace, strings.ToLower(id))
		if errors.Is(err, hnsd.ErrElementNotFound) {
			return state, nil
		}
		return next, err
	})
}
