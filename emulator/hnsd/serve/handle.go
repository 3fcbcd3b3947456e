package serve

import (
	"sync"

	"porthole.dev/porthole/emulator/hnsd"
)

// handles belong to a process and end with its last connection.
type handles struct {
	mu    sync.Mutex
	last  uint64
	open  map[uint64]handle
	conns map[uint64]int // connections by process id
}

type handle struct {
	kind    hnsd.Kind
	id      string
	process uint64
}

func (h *handles) connected(process uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		h.conns, h.open = map[uint64]int{}, map[uint64]handle{}
	}
	h.conns[process]++
}

func (h *handles) disconnected(process uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[process]--; h.conns[process] > 0 {
		return
	}
	delete(h.conns, process)
	for n, o := range h.open {
		if o.process == process {
			delete(h.open, n)
		}
	}
}

func (h *handles) add(k hnsd.Kind, id string, process uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last += 8
	h.open[h.last] = handle{k, id, process}
	return h.last
}

// get finds an open handle of that kind and process.
func (h *handles) get(n uint64, k hnsd.Kind, process uint64) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, ok := h.open[n]
	if !ok || o.kind != k || o.process != process {
		return "", hnsd.ErrInvalidHandle
	}
	return o.id, nil
}

func (h *handles) close(n uint64, k hnsd.Kind, process uint64) error {
	if _, err := h.get(n, k, process); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, n)
	return nil
}

// forget ends every handle, as a restart of the service does.
func (h *handles) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.open)
}

func (h *handles) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}
