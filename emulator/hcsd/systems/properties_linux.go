package systems

import (
	"encoding/json"
	"time"

	"porthole.dev/porthole/emulator/hcsd"
)

// Use is what a system that runs was seen to use.
type Use struct {
	hcsd.Measured
	Server hcsd.ProcessorTime // of its wineserver, which the former includes
}

// Properties are a system's, with those that were asked for; use is nil if none of them needs it. Figures of the time
// on processors never fall below those of an earlier call.
func (s *Store) Properties(id string, types []string, use *Use, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, i, err := s.get(id)
	if err != nil {
		return "", err
	}
	if use == nil {
		return sys.Properties(types, hcsd.Measured{}, now), nil
	}
	m := use.Measured
	m.LeaveOut(use.Server, &i.told)
	return sys.Properties(types, m, now), nil
}

// Modify changes the limits of a system that runs as a document says, and returns them with the system's key.
func (s *Store) Modify(id, document string) (key string, _ hcsd.Container, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, i, err := s.get(id)
	if err == nil {
		err = sys.Running()
	}
	if err != nil {
		return "", hcsd.Container{}, err
	}
	before := sys.Doc.Container
	doc, err := sys.Modify(document)
	if err == nil {
		err = s.save()
	}
	if err != nil {
		sys.Doc.Container = before
		return "", hcsd.Container{}, err
	}
	return i.Key, doc, nil
}

// Enumerate lists the systems that a query matches.
func (s *Store) Enumerate(query string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.systems.Enumerate(query)
}

// UserOf is the system that runs on a layer; "" if there is none.
func (s *Store) UserOf(layer string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sys := range s.systems {
		used, _ := hcsd.LayerOfVolume(sys.Doc.Container.Storage.Path)
		if used == layer && sys.State == hcsd.Running {
			return id
		}
	}
	return ""
}

// Runs is how many systems run.
func (s *Store) Runs() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sys := range s.systems {
		if sys.State == hcsd.Running {
			n++
		}
	}
	return n
}

// MarshalJSON is what is decided of all systems, by id.
func (s *Store) MarshalJSON() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(s.systems)
}
