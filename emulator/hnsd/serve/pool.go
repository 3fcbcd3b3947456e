package serve

import (
	"fmt"
	"sync/atomic"

	"porthole.dev/porthole/emulator/hnsd"
)

// endlessPool is the number of port blocks unless somebody sets another one.
const endlessPool = 1 << 20

// Pool is the state of the host's blocks of ephemeral ports. Every load balancer without direct server return holds
// one.
type Pool struct {
	Size      int `json:"size"` // blocks
	Used      int `json:"used"`
	Free      int `json:"free"`
	BlockSize int `json:"blockSize"` // ports
}

// PoolRequest sets the size, or how many blocks shall be free now. Load balancers that are there keep theirs.
type PoolRequest struct {
	Size *int `json:"size,omitempty"`
	Free *int `json:"free,omitempty"`
}

type pool struct{ size atomic.Int64 }

func (s *Service) poolState() Pool {
	p := Pool{Size: int(s.pool.size.Load()), Used: s.state.Load().PortBlocks(), BlockSize: hnsd.PortBlock}
	p.Free = max(0, p.Size-p.Used)
	return p
}

// setPool sets the size of the pool, either as such or by how many blocks are to be free. A size below what is in use
// takes no block away; only new load balancers fail.
func (s *Service) setPool(q PoolRequest) error {
	switch {
	case (q.Size == nil) == (q.Free == nil):
		return fmt.Errorf("set either the size or the number of free blocks")
	case q.Size != nil && *q.Size < 0, q.Free != nil && *q.Free < 0:
		return fmt.Errorf("a number of blocks is not negative")
	case q.Size != nil:
		s.pool.size.Store(int64(*q.Size))
		return nil
	}
	s.writing.Lock() // no load balancer comes between the look and the change
	defer s.writing.Unlock()
	s.pool.size.Store(int64(s.state.Load().PortBlocks() + *q.Free))
	return nil
}
