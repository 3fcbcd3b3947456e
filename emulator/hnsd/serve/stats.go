package serve

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// Stats are the calls since the daemon's start.
type Stats struct {
	Calls  map[string]int `json:"calls"`  // by function, as HcnCreateLoadBalancer or HNSCall GET /networks/
	Errors map[string]int `json:"errors"` // of those, the failed ones
	// Writes counts the calls that can change something: create, modify, delete, and POST and DELETE of v1.
	Writes int `json:"writes"`
	// Programs are the calls by program file and function.
	Programs map[string]map[string]int `json:"programs"`
	Seconds  float64                   `json:"seconds"` // time spent in calls
	Handles  int                       `json:"handles"` // open now
}

type stats struct {
	mu sync.Mutex
	s  Stats
}

// count adds one call of a program. took includes injected latency.
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
	if isWrite(function) {
		s.s.Writes++
	}
	if s.s.Programs[program] == nil {
		s.s.Programs[program] = map[string]int{}
	}
	s.s.Programs[program][function]++
	s.s.Seconds += took.Seconds()
}

func isWrite(function string) bool {
	for _, p := range []string{"HcnCreate", "HcnModify", "HcnDelete", "HNSCall POST", "HNSCall DELETE"} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}

func (s *stats) get() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.s
	// Empty ones are {} in JSON.
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
