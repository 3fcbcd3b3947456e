package handles

import (
	"errors"
	"sync"
	"testing"

	"porthole.dev/porthole/emulator/hnsd"
)

// TestForeign: a handle is of no use to another process, for another kind, or when it is closed; nothing changes then.
func TestForeign(t *testing.T) {
	var s Store
	s.Connected(1)
	s.Connected(2)
	h := s.Open(hnsd.Network, "n", 1)
	for _, c := range []struct {
		n       uint64
		k       hnsd.Kind
		process uint64
	}{{h, hnsd.Network, 2}, {h, hnsd.Endpoint, 1}, {h + 1, hnsd.Network, 1}, {0, hnsd.Network, 1}} {
		if id, err := s.ID(c.n, c.k, c.process); id != "" || !errors.Is(err, hnsd.ErrInvalidHandle) {
			t.Errorf("%+v: %q, %v", c, id, err)
		}
		if err := s.Close(c.n, c.k, c.process); !errors.Is(err, hnsd.ErrInvalidHandle) {
			t.Errorf("closing %+v: %v", c, err)
		}
	}
	if id, err := s.ID(h, hnsd.Network, 1); id != "n" || err != nil || s.Count() != 1 {
		t.Errorf("%q, %v, %d open", id, err, s.Count())
	}
	if err := s.Close(h, hnsd.Network, 1); err != nil {
		t.Error(err)
	}
	if err := s.Close(h, hnsd.Network, 1); !errors.Is(err, hnsd.ErrInvalidHandle) {
		t.Errorf("closed twice: %v", err)
	}
}

// TestEnd: handles last as long as their process has a connection, or until the service restarts.
func TestEnd(t *testing.T) {
	var s Store
	s.Connected(1)
	s.Connected(1)
	s.Connected(2)
	s.Open(hnsd.Endpoint, "a", 1)
	s.Open(hnsd.Endpoint, "a", 2)
	s.Disconnected(1)
	if s.Count() != 2 || s.Connections(1) != 1 {
		t.Errorf("%d open, %d connections", s.Count(), s.Connections(1))
	}
	s.Disconnected(1)
	if s.Count() != 1 || s.Connections(1) != 0 {
		t.Errorf("%d open, %d connections", s.Count(), s.Connections(1))
	}
	s.Forget()
	if s.Count() != 0 {
		t.Errorf("%d are open after a restart", s.Count())
	}
}

// TestConcurrent: threads of several processes open, use and close handles at the same moment; no number is given
// twice.
func TestConcurrent(t *testing.T) {
	var s Store
	var all sync.WaitGroup
	var seen sync.Map

	for process := range uint64(8) {
		s.Connected(process)
		all.Go(func() {
			defer s.Disconnected(process)
			for range 100 {
				h := s.Open(hnsd.Network, "n", process)
				if _, twice := seen.LoadOrStore(h, true); twice {
					t.Errorf("%d is given twice", h)
				}
				if _, err := s.ID(h, hnsd.Network, process); err != nil {
					t.Error(err)
				}
				if h%16 == 0 {
					_ = s.Close(h, hnsd.Network, process)
				}
			}
		})
	}
	all.Wait()

	if s.Count() != 0 {
		t.Errorf("%d are open, and no process is connected", s.Count())
	}
}
