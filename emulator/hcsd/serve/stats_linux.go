package serve

import (
	"maps"
	"sync"
	"time"
)

// Stats are the calls since the daemon's start, or since they were reset.
type Stats struct {
	Calls    map[string]int            `json:"calls"`    // by function of vmcompute.dll
	Errors   map[string]int            `json:"errors"`   // of those, the failed ones
	Programs map[string]map[string]int `json:"programs"` // by program file and function
	Seconds  float64                   `json:"seconds"`  // spent in calls, delays that were injected included
}

type stats struct {
	mu sync.Mutex
	s  Stats
}

func (s *stats) count(program, function string, failed bool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.s.Calls == nil {
		s.s.Calls, s.s.Errors, s.s.Programs = map[string]int{}, map[string]int{}, map[string]map[string]int{}
	}
	s.s.Calls[function]++
	if failed {
		s.s.Errors[function]++
	}
	if s.s.Programs[program] == nil {
		s.s.Programs[program] = map[string]int{}
	}
	s.s.Programs[program][function]++
	s.s.Seconds += took.Seconds()
}

func (s *stats) get() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.s
	c.Calls, c.Errors, c.Programs = map[string]int{}, map[string]int{}, map[string]map[string]int{}
	maps.Copy(c.Calls, s.s.Calls)
	maps.Copy(c.Errors, s.s.Errors)
	for name, calls := range s.s.Programs {
		c.Programs[name] = maps.Clone(calls)
	}
	return c
}

func (s *stats) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s = Stats{}
}
