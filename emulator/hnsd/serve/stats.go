package serve

import (
	"strings"

	"porthole.dev/porthole/emulator/daemon"
)

// Stats are the calls since the daemon's start.
type Stats struct {
	daemon.Counts
	// Writes counts the calls that can change something: create, modify, delete, and POST and DELETE of v1.
	Writes  int `json:"writes"`
	Handles int `json:"handles"` // open now
}

// stats returns what was counted.
func (s *Service) stats() Stats {
	st := Stats{Counts: s.calls.Get(), Handles: s.handles.Count()}
	for function, n := range st.Calls {
		if isWrite(function) {
			st.Writes += n
		}
	}
	return st
}

// isWrite goes by the names of calls (call.functionName).
func isWrite(function string) bool {
	for _, p := range []string{"HcnCreate", "HcnModify", "HcnDelete", "HNSCall POST", "HNSCall DELETE"} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}
