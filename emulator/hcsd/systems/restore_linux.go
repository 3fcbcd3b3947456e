package systems

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
)

// Adopted is a system that an earlier hcsd has started and that still runs.
type Adopted struct {
	*Instance
	Init     container.Process
	Pipes    []hcsd.MappedPipe
	Programs []*Program // those that had not ended
}

// found is what only this machine knows of a container that runs. *container.Runtime is one.
type found interface {
	// Found returns how many of its processes Linux has killed for lack of memory, and the highest number of a
	// program that was begun in it.
	Found(key string, init container.Process) (kills uint64, last int)
	// Reopen opens the standard streams of a program.
	Reopen(key string, number int) *container.Streams
}

// Restore reads the state that an earlier hcsd left, and returns the systems that still run, for the caller to watch.
// What has ended meanwhile is left out, and so is what was not started yet: nobody has a handle of it any more. It is
// called once, before all others.
func (s *Store) Restore(machine found) ([]Adopted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := os.ReadFile(s.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the state of HCS: %w", err)
	}
	var have saved
	if err == nil {
		if err := json.Unmarshal(data, &have); err != nil {
			return nil, fmt.Errorf("reading the state of HCS: %w", err)
		}
	}

	var list []Adopted
	for id, sys := range have.Systems {
		c := have.Containers[id]
		if c == nil || sys.State != hcsd.Running || !c.Init.Alive() {
			continue
		}
		i := newInstance(id)
		i.adopted, i.init = true, c.Init
		if c.Programs != nil {
			i.programs = c.Programs
		}
		i.kills, i.last = machine.Found(i.Key, *c.Init)
		i.last = max(i.last, c.Last)
		a := Adopted{Instance: i, Init: *c.Init, Pipes: sys.Doc.Container.MappedPipes}
		for pid, p := range i.programs {
			p.Streams = machine.Reopen(i.Key, p.Number)
			if rec := sys.Processes[pid]; rec != nil && !rec.Exited {
				a.Programs = append(a.Programs, p)
			}
		}
		s.systems[id], s.instances[id] = sys, i
		list = append(list, a)
	}
	return list, s.save()
}
