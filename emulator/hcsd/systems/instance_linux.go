package systems

import (
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
)

// Instance is one life of a system: the id of one that has ended may be given to another. It is what belongs to a
// system besides what package hcsd decides of it.
type Instance struct {
	ID  string
	Key string // names its folder, and its container of runc

	starting chan struct{} // holds one token: see Starting
	ended    chan struct{}

	// What follows is under the store's lock.

	// adopted: an earlier hcsd made it. Its handles are not known, so that it does not end with the last one.
	adopted  bool
	init     *container.Process  // its first process; nil before it starts
	programs map[uint32]*Program // by pid
	last     int                 // numbers the programs
	stopping bool                // its end was asked for
	kills    uint64              // by the kernel for lack of memory, that are known as the ends of programs
	told     hcsd.ProcessorTime  // the figures that were told last
}

// Program is a process of a system that the host's programs have started. Its fields do not change.
type Program struct {
	Number  int                // names its files
	Process container.Process  // the launcher, whose pid is that of the program for everybody
	Streams *container.Streams `json:"-"`
}

func newInstance(id string) *Instance {
	return &Instance{ID: id, Key: container.KeyOf(id), programs: map[uint32]*Program{},
		starting: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Starting waits until nobody else starts something in the system, and keeps others from it until done is called. Of
// two programs that begin at once the second would wait for the first one's event (emulator/dll/launch.c).
func (i *Instance) Starting() (done func()) {
	i.starting <- struct{}{}
	return func() { <-i.starting }
}

// Over is closed when the container of a system that ran has ended.
func (i *Instance) Over() <-chan struct{} { return i.ended }
