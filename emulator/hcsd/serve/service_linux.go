package serve

import (
	"context"
	"sync/atomic"
	"time"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/hcsd/credentials"
	"porthole.dev/porthole/emulator/hcsd/handles"
	"porthole.dev/porthole/emulator/hcsd/layers"
	"porthole.dev/porthole/emulator/hcsd/silos"
	"porthole.dev/porthole/emulator/hcsd/systems"
	"porthole.dev/porthole/emulator/hnsd/fault"
)

// Service is one running HCS. It reads calls, hands each to the store that has what the call is about, and answers. Its
// stores have all state, each under a lock of its own; in which order they are held is in the package's comment.
type Service struct {
	o          Options
	operations map[string]operation // by function

	handles     *handles.Store
	systems     *systems.Store
	layers      *layers.Store
	silos       *silos.Store
	credentials *credentials.Store
	runner      *runner

	connections atomic.Uint64 // numbers them
	calls       daemon.Counter
	faults      fault.Rules
}

// newService returns a service without systems. restore has to be called before the first call.
func newService(o Options) (*Service, error) {
	s := &Service{o: o, handles: handles.New()}
	var err error
	if s.credentials, err = credentials.Open(o.host().Path("credentials.json")); err != nil {
		return nil, err
	}
	runtime := o.runtime()
	s.systems = systems.New(o.host().Path("state.json"), runtime, s.handles)
	s.layers = layers.New(layers.Options{Host: o.host(), Template: o.Template, Users: s.systems,
		Drop: func(layer string) { s.silos.DropOn(layer) }})
	s.silos = silos.New(o.host(), s.layers)
	s.runner = &runner{hostDir: o.HostDir, runtime: runtime, systems: s.systems, mounted: s.layers.Mounted,
		domain: s.credentials.Domain}
	s.operations = s.functions()
	return s, nil
}

// restore takes over what an earlier hcsd left.
func (s *Service) restore(ctx context.Context) error {
	if err := s.silos.Restore(); err != nil {
		return err
	}
	return s.runner.restore(ctx)
}

// now is the time that records get.
func now() time.Time { return time.Now().UTC() }
