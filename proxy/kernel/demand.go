package kernel

import (
	"time"

	"porthole.dev/porthole/proxy/service"
)

// demand is what services want. It tells the targets which frontends that are.
type demand struct {
	*report
	derive *deriver

	// complete: all services have arrived once.
	complete bool
	services map[string]*serviceDemand
	targets  *targets
	// contenders are the services that derive a frontend which another service has first.
	contenders map[service.Key]map[string]bool
}

// serviceDemand is one service.
type serviceDemand struct {
	state     service.State
	keys      []service.Key // the frontends that the service has
	triggered []time.Time   // changes of endpoints that are not programmed yet
	removed   bool
	reported  reported
}

// again returns what the service wants, without a change of its own.
func (s *serviceDemand) again() service.State {
	state := s.state
	state.Triggered = nil
	return state
}

func newDemand(r *report, d *deriver, ts *targets) *demand {
	return &demand{report: r, derive: d, targets: ts, services: map[string]*serviceDemand{},
		contenders: map[service.Key]map[string]bool{}}
}

// apply updates the targets to the frontends that the changed services want. If one service releases a frontend and
// another claims it in the same batch, the claimant gets it. It returns the targets to be planned; one may be there
// twice.
func (d *demand) apply(changed []service.State) (affected []*target) {
	for i := range changed {
		s := &changed[i]
		wants := d.services[s.Service]
		if wants == nil {
			wants = &serviceDemand{}
			d.services[s.Service] = wants
		}
		wants.triggered = append(wants.triggered, s.Triggered...)
		wants.state = *s
		wants.removed = s.Empty()

		for _, key := range wants.keys {
			if t := d.targets.release(key, s.Service); t != nil {
				affected = append(affected, t)
			}
		}
		wants.keys = nil
		d.touch(s.Service)
	}

	for i := range changed {
		affected = d.claim(changed[i].Service, affected)
	}
	return affected
}

// claim makes a target for each frontend of a service, and appends those that the service gets.
func (d *demand) claim(name string, affected []*target) []*target {
	wants := d.services[name]
	d.derive.frontends(&wants.state, func(f *service.Frontend, derived bool) {
		if old := d.targets.at(f.Key); old != nil && old.f != nil && old.derived && !derived && old.service != name {
			d.contend(f.Key, old.service) // it gets the frontend back when this service releases it
		}
		t := d.targets.claim(f, name, derived, rank(wants.state.Rank))
		if t == nil {
			d.contend(f.Key, name)
			return
		}
		wants.keys = append(wants.keys, f.Key)
		affected = append(affected, t)
	})
	return affected
}

// contend notes that a service derives a frontend which another one has.
func (d *demand) contend(key service.Key, name string) {
	if d.contenders[key] == nil {
		d.contenders[key] = map[string]bool{}
	}
	d.contenders[key][name] = true
}

// successors returns the services that derive what others have now released.
func (d *demand) successors(affected []*target) (states []service.State) {
	for _, t := range affected {
		if t.f != nil {
			continue
		}
		for name := range d.contenders[t.key] {
			if wants := d.services[name]; wants != nil {
				states = append(states, wants.again())
			}
		}
		delete(d.contenders, t.key)
	}
	return states
}

// states returns what all services want.
func (d *demand) states() []service.State {
	states := make([]service.State, 0, len(d.services))
	for _, wants := range d.services {
		states = append(states, wants.again())
	}
	return states
}
