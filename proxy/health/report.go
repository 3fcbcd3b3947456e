package health

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"porthole.dev/porthole/proxy/service"
)

// Report is the outcome of one pass with everything in it: an older form of Pass and ServiceStatus.
type Report struct {
	At         time.Time
	Took       time.Duration
	Observed   time.Time
	Ready      bool
	Error      string
	Wanted     int
	Programmed int
	Failed     []Failure
	Unserved   []Failure
}

// Failure is one frontend and why it is not right.
type Failure struct {
	Service  string
	Frontend string
	Reason   string
	Since    time.Time
}

// Sort puts failures in a stable order.
func (r *Report) Sort() {
	for _, list := range [][]Failure{r.Failed, r.Unserved} {
		slices.SortFunc(list, func(a, b Failure) int {
			return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Frontend, b.Frontend), cmp.Compare(a.Reason, b.Reason))
		})
	}
}

// Update takes a report.
func (s *Server) Update(r Report) {
	now := map[string]*ServiceStatus{}
	get := func(name string) *ServiceStatus {
		if now[name] == nil {
			now[name] = &ServiceStatus{Service: name, State: Programmed}
		}
		return now[name]
	}
	for _, f := range r.Failed {
		get(f.Service).State = Failed
		get(f.Service).Message, get(f.Service).Since = f.Frontend+": "+f.Reason, f.Since
	}
	for _, f := range r.Unserved {
		get(f.Service).Problems = append(get(f.Service).Problems, service.Problem{Service: f.Service, Text: f.Reason})
	}
	s.mu.Lock()
	for name := range s.table.all {
		if now[name] == nil {
			now[name] = &ServiceStatus{Service: name, State: Programmed}
		}
	}
	s.mu.Unlock()
	for _, status := range now {
		s.Service(*status)
	}
	p := Pass{Observed: r.Observed, Took: r.Took, Ready: r.Ready, Wanted: r.Wanted, Programmed: r.Programmed, Failed: len(r.Failed)}
	if r.Error != "" {
		p.Err = errors.New(r.Error)
	}
	s.Pass(p)
}
