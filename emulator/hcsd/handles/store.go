// Package handles counts which handles the host's programs have of compute systems and their processes.
//
// vmcompute.dll has one connection for each process of the host, and a handle belongs to the connection that opened
// it: with the connection all of its handles are closed.
package handles

import "sync"

// Ref names what a handle is of: a system, or with a Pid one of its processes.
type Ref struct {
	System string
	Pid    uint32
}

// Connection numbers a connection. The number is given once only.
type Connection uint64

// Store owns all handles. It is safe for concurrent use, and calls nobody while it holds its lock.
//
// The count of a Ref is the number of times that it stands in the lists of all connections: never negative, and zero
// is not kept. So a Ref that is held belongs to a connection that has not ended.
type Store struct {
	mu     sync.Mutex
	open   map[Connection][]Ref
	counts map[Ref]int
}

// New returns a store without handles.
func New() *Store { return &Store{open: map[Connection][]Ref{}, counts: map[Ref]int{}} }

// Open gives a connection one more handle.
func (s *Store) Open(c Connection, r Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = append(s.open[c], r)
	s.counts[r]++
}

// Held reports whether somebody has a handle.
func (s *Store) Held(r Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[r] > 0
}

// Close closes all handles of a connection, and returns what nobody has a handle of any more, in the order in which it
// was opened. A connection without handles is success.
func (s *Store) Close(c Connection) (last []Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.open[c] {
		if s.counts[r]--; s.counts[r] == 0 {
			delete(s.counts, r)
			last = append(last, r)
		}
	}
	delete(s.open, c)
	return last
}
