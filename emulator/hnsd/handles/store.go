// Package handles owns the handles of HNS objects that the host's programs have.
package handles

import (
	"sync"

	"porthole.dev/porthole/emulator/hnsd"
)

// Store owns all handles. It is safe for concurrent use, calls nobody while it holds its lock, and its zero value has
// no handles.
//
// It keeps that a number is given once only, that a handle is of use to its process and for its kind of object alone,
// and that none outlives the last connection of its process: a process that ends leaves nothing.
type Store struct {
	mu          sync.Mutex
	last        uint64
	open        map[uint64]handle
	connections map[uint64]int // by process id
}

// handle is what a number stands for. The object may be gone while the handle is open.
type handle struct {
	kind    hnsd.Kind
	id      string
	process uint64
}

// Connected counts a connection of a process.
func (s *Store) Connected(process uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connections == nil {
		s.connections = map[uint64]int{}
		s.open = map[uint64]handle{}
	}
	s.connections[process]++
}

// Disconnected is the end of a connection. With the last one of a process its handles end.
// A process has a connection for each of its threads (serveConn), so that the end of one says
// nothing.
func (s *Store) Disconnected(process uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connections[process]--; s.connections[process] > 0 {
		return
	}
	delete(s.connections, process)
	for n, h := range s.open {
		if h.process == process {
			delete(s.open, n)
		}
	}
}

// Open gives a process that is connected a handle of an object, which need not be there.
func (s *Store) Open(k hnsd.Kind, id string, process uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += 8
	s.open[s.last] = handle{k, id, process}
	return s.last
}

// ID returns the id of the object of a handle of that kind and process.
func (s *Store) ID(n uint64, k hnsd.Kind, process uint64) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.open[n]
	if !ok || h.kind != k || h.process != process {
		return "", hnsd.ErrInvalidHandle
	}
	return h.id, nil
}

// Close ends a handle of that kind and process.
func (s *Store) Close(n uint64, k hnsd.Kind, process uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.open[n]; !ok || h.kind != k || h.process != process {
		return hnsd.ErrInvalidHandle
	}
	delete(s.open, n)
	return nil
}

// Forget ends every handle, as a restart of the service does.
// Connections stay: programs notice by the error of their next call.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.open)
}

// Count is how many are open.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Connections is how many a process has.
func (s *Store) Connections(process uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections[process]
}
