// Package userns gives pods ranges of the node's user and group ids, so that root in a pod is nobody on the node. A
// range belongs to one pod, and is written down in the pod's folder, in upstream's form, before the pod gets it.
package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/atomicfile"
)

// DefaultLength is how many ids a pod has: upstream's default, and the unit of which a length has to be a multiple.
const DefaultLength = 65536

// fileName is upstream's, in the folder of a pod.
const fileName = "userns"

// Range are the ids [First, First+Length) of the node, which are 0 and up in the pod.
type Range struct{ First, Length uint32 }

// mapping is a range as the file has it.
type mapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

// mappings is the file.
type mappings struct {
	UIDs []mapping `json:"uidMappings"`
	GIDs []mapping `json:"gidMappings"`
}

// Options configure a Manager.
type Options struct {
	// PodsDir is the folder of the pods' folders.
	PodsDir string
	// All are the ids that pods can have. Its beginning and its length are multiples of Length.
	All Range
	// Length is how many ids a pod has; zero means DefaultLength.
	Length uint32
	// MaxPods is how many pods the node can have.
	MaxPods int
}

// Manager knows which pod has which ids. It is safe for concurrent use.
type Manager struct {
	o Options

	mu    sync.Mutex
	held  map[types.UID]uint32 // the first id of a pod
	taken map[uint32]types.UID
}

// New returns a Manager that knows what earlier kubelets gave to pods that have a folder. The error is in upstream's
// words.
func New(o Options) (*Manager, error) {
	if o.Length == 0 {
		o.Length = DefaultLength
	}
	switch n := o.Length; {
	case n%DefaultLength != 0:
		return nil, fmt.Errorf("kubelet user namespace length %v is not a multiple of %d", n, DefaultLength)
	case o.All.First%n != 0:
		return nil, fmt.Errorf("kubelet user assigned ID %v is not a multiple of %v", o.All.First, n)
	case o.All.First < n:
		return nil, fmt.Errorf("kubelet user assigned ID %v must be greater or equal to %v", o.All.First, n)
	case o.All.Length%n != 0:
		return nil, fmt.Errorf("kubelet user assigned IDs length %v is not a multiple of %v", o.All.Length, n)
	case int(o.All.Length/n) < o.MaxPods:
		return nil, fmt.Errorf("kubelet user assigned IDs are not enough to support %v pods", o.MaxPods)
	}

	m := &Manager{o: o, held: map[types.UID]uint32{}, taken: map[uint32]types.UID{}}
	folders, err := os.ReadDir(o.PodsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read pods from disk: %w", err)
	}
	for _, f := range folders {
		if _, _, err := m.recall(types.UID(f.Name())); err != nil {
			return nil, fmt.Errorf("record pod mappings for existing pod %q: %w", f.Name(), err)
		}
	}
	return m, nil
}

// Of returns the ids of a pod, whose folder exists. A pod that has none gets the lowest ones that are free.
func (m *Manager) Of(pod types.UID) (Range, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, found, err := m.recall(pod); found || err != nil {
		if err != nil {
			return Range{}, fmt.Errorf("user namespace: %w", err)
		}
		return r, nil
	}

	first, ok := m.free()
	if !ok {
		return Range{}, errors.New("create user namespace: could not find an empty slot to allocate a user namespace")
	}
	one := []mapping{{HostID: first, Length: m.o.Length}}
	text, err := json.Marshal(mappings{one, one})
	if err == nil {
		err = atomicfile.WriteThrough(m.file(pod), text, 0o600)
	}
	if err != nil {
		return Range{}, fmt.Errorf("create user namespace: %w", err)
	}
	m.held[pod], m.taken[first] = first, pod
	return Range{first, m.o.Length}, nil
}

// Release takes the ids of a pod that has ended. Releasing twice does nothing.
func (m *Manager) Release(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, ok := m.held[pod]; ok {
		delete(m.held, pod)
		delete(m.taken, first)
		_ = os.Remove(m.file(pod)) // a folder that is left over counts as a pod's at the next start
	}
}

func (m *Manager) file(pod types.UID) string {
	return filepath.Join(m.o.PodsDir, string(pod), fileName)
}

// free returns the lowest range that nobody has. The caller holds the lock.
func (m *Manager) free() (first uint32, ok bool) {
	for at := uint64(m.o.All.First); at < uint64(m.o.All.First)+uint64(m.o.All.Length); at += uint64(m.o.Length) {
		if _, taken := m.taken[uint32(at)]; !taken {
			return uint32(at), true
		}
	}
	return 0, false
}

// recall reads the file of a pod and takes its range for the pod. The caller holds the lock, or nobody else has the
// Manager yet.
func (m *Manager) recall(pod types.UID) (r Range, found bool, err error) {
	text, err := os.ReadFile(m.file(pod))
	if errors.Is(err, os.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	if r, err = m.parse(text); err != nil {
		return r, true, err
	}
	if other, taken := m.taken[r.First]; taken && other != pod {
		return r, true, fmt.Errorf("range picked for pod %q already taken", pod)
	}
	m.held[pod], m.taken[r.First] = r.First, pod
	return r, true, nil
}

// parse reads a file, which must be one that a kubelet with these options could have written.
func (m *Manager) parse(text []byte) (r Range, err error) {
	var f mappings
	if err := json.Unmarshal(text, &f); err != nil {
		return r, fmt.Errorf("invalid user namespace mappings file: %w", err)
	}
	switch {
	case len(f.UIDs) != 1:
		return r, errors.New("invalid user namespace configuration: no more than one mapping allowed")
	case len(f.GIDs) != 1 || f.UIDs[0] != f.GIDs[0]:
		return r, errors.New("invalid user namespace configuration: GID and UID mapping should be identical")
	case f.UIDs[0].ContainerID != 0:
		return r, errors.New("invalid user namespace configuration: UID 0 must be mapped")
	}
	r = Range{f.UIDs[0].HostID, f.UIDs[0].Length}
	switch end := uint64(m.o.All.First) + uint64(m.o.All.Length); {
	case r.Length != m.o.Length:
		return r, fmt.Errorf("wrong user namespace length %v", r.Length)
	case r.First%m.o.Length != 0:
		return r, fmt.Errorf("wrong user namespace offset specified %v", r.First)
	case r.First < m.o.All.First || uint64(r.First) >= end:
		return r, fmt.Errorf("id %v is out of range", r.First)
	}
	return r, nil
}
