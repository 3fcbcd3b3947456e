package serve

import (
	"path"
	"strings"
	"sync"
	"time"
)

// Fault is a rule that makes calls go wrong. The first that matches a call is used.
type Fault struct {
	// Function is the call's name as in Stats; * stands for anything: HcnCreate*, "HNSCall GET /networks*".
	Function string `json:"function"`
	Program  string `json:"program,omitempty"` // file name of the caller, any case; empty: any
	// Action: fail (answer Code, do nothing), skip (answer success, do nothing), after (do it, then answer Code),
	// drop (close the connection). Empty: only the delay.
	Action string `json:"action,omitempty"`
	Code   uint32 `json:"code,omitempty"` // HRESULT
	Text   string `json:"text,omitempty"` // of the error record; empty: no record
	Delay  int    `json:"delayMs,omitempty"`
	Times  int    `json:"times,omitempty"` // how often it is used; 0: until it is removed
	Hits   int    `json:"hits"`
}

type faults struct {
	mu    sync.Mutex
	rules []*Fault
}

// match uses up one turn of the first rule that fits.
func (f *faults) match(program, function string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.Times > 0 && r.Hits >= r.Times {
			continue
		}
		// A slash is a letter like any other here.
		ok, err := path.Match(strings.ReplaceAll(r.Function, "/", "\x00"), strings.ReplaceAll(function, "/", "\x00"))
		if err != nil || !ok || r.Program != "" && !strings.EqualFold(r.Program, program) {
			continue
		}
		r.Hits++
		return *r
	}
	return Fault{}
}

func (f *faults) set(rules []*Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
}

func (f *faults) list() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []Fault{}
	for _, r := range f.rules {
		out = append(out, *r)
	}
	return out
}

func (r Fault) wait(done <-chan struct{}) {
	if r.Delay <= 0 {
		return
	}
	timer := time.NewTimer(time.Duration(r.Delay) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}
