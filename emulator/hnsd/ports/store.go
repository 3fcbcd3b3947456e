// Package ports owns how many blocks of ephemeral ports the host has. Every load balancer without direct server return
// holds one.
package ports

import (
	"fmt"
	"sync/atomic"

	"porthole.dev/porthole/emulator/hnsd"
)

// endless is the number of blocks unless somebody sets another one.
const endless = 1 << 20

// Store owns the number, which is never negative. It is safe for concurrent use. Who holds blocks is not known here:
// that are load balancers. A number below what is in use takes no block away; only new load balancers fail.
type Store struct{ blocks atomic.Int64 }

// New returns a store with more blocks than anybody can use.
func New() *Store {
	s := &Store{}
	s.blocks.Store(endless)
	return s
}

// Blocks is how many the host has.
func (s *Store) Blocks() int { return int(s.blocks.Load()) }

// State is that of the host's blocks.
type State struct {
	Size      int `json:"size"` // blocks
	Used      int `json:"used"`
	Free      int `json:"free"`
	BlockSize int `json:"blockSize"` // ports
}

// State returns the state when that many blocks are used.
func (s *Store) State(used int) State {
	size := s.Blocks()
	return State{Size: size, Used: used, Free: max(0, size-used), BlockSize: hnsd.PortBlock}
}

// Request sets the number, or how many blocks shall be free now.
type Request struct {
	Size *int `json:"size,omitempty"`
	Free *int `json:"free,omitempty"`
}

// Set carries out a request when that many blocks are used. One that is refused changes nothing.
func (s *Store) Set(q Request, used int) error {
	switch {
	case (q.Size == nil) == (q.Free == nil):
		return fmt.Errorf("set either the size or the number of free blocks")
	case q.Size != nil && *q.Size < 0, q.Free != nil && *q.Free < 0:
		return fmt.Errorf("a number of blocks is not negative")
	case q.Size != nil:
		s.blocks.Store(int64(*q.Size))
	default:
		s.blocks.Store(int64(used + *q.Free))
	}
	return nil
}
