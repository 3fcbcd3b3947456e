package pin

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"porthole.dev/porthole/kubelet/checkpoint"
	"porthole.dev/porthole/kubelet/numa"
)

// Names of the checkpoints, which are upstream's.
const (
	cpuFile    = "cpu_manager_state"
	memoryFile = "memory_manager_state"
)

// Manager knows who has which processors and memory. Make it with New. It is safe for concurrent use, but only one
// Round at a time may be under way.
type Manager struct {
	o Options

	mu     sync.Mutex
	cpus   *cpus   // nil: nobody gets processors alone
	memory *memory // nil: nobody gets memory of certain nodes
	counts Counts
}

// Counts are figures since the start: who asked for processors or memory of their own, and who could not have them.
type Counts struct{ CPURequests, CPUErrors, MemoryRequests, MemoryErrors uint64 }

// New returns a Manager that knows what an earlier kubelet wrote down. An error says that the configuration cannot
// work, or that the checkpoint does not fit to it: somebody has to decide then, because containers that run may use
// what others would get.
func New(o Options) (*Manager, error) {
	m := &Manager{o: o}
	var err error
	if m.cpus, err = newCPUs(o); err != nil {
		return nil, err
	}
	if m.memory, err = newMemory(o); err != nil {
		return nil, err
	}
	if err := m.recall(); err != nil {
		return nil, err
	}
	return m, m.save()
}

// recall reads the checkpoints.
func (m *Manager) recall() error {
	file := filepath.Join(m.o.Dir, cpuFile)
	c, err := checkpoint.ReadCPUs(file)
	switch {
	case err == nil && c != nil && c.Policy != m.o.CPUPolicy:
		err = fmt.Errorf("configured policy %q differs from state checkpoint policy %q", m.o.CPUPolicy, c.Policy)
	case err == nil && c != nil && m.cpus != nil:
		err = m.cpus.recall(c)
	}
	if err != nil {
		return fmt.Errorf(
			"could not restore state from checkpoint: %w, please drain this node and delete the CPU manager checkpoint file %q before restarting Kubelet", err, file)
	}

	file = filepath.Join(m.o.Dir, memoryFile)
	f, err := checkpoint.ReadMemory(file)
	switch {
	case err == nil && f != nil && f.Policy != m.o.MemoryPolicy:
		err = fmt.Errorf("[memorymanager] configured policy %q differs from state checkpoint policy %q",
			m.o.MemoryPolicy, f.Policy)
	case err == nil && f != nil && m.memory != nil:
		err = m.memory.recall(f)
	}
	if err != nil {
		return fmt.Errorf(
			"could not restore state from checkpoint: %w, please drain this node and delete the memory manager checkpoint file %q before restarting Kubelet", err, file)
	}
	return nil
}

// save writes the checkpoints. The caller holds the lock, or nobody else has the Manager yet.
func (m *Manager) save() error {
	if err := checkpoint.WriteCPUs(filepath.Join(m.o.Dir, cpuFile), m.cpus.record()); err != nil {
		return err
	}
	return checkpoint.WriteMemory(filepath.Join(m.o.Dir, memoryFile), m.memory.record())
}

// Active reports whether somebody can get anything alone.
func (m *Manager) Active() bool { return m.cpus != nil || m.memory != nil }

// CPUs reports whether containers can get processors alone, so that the others have to keep away from them.
func (m *Manager) CPUs() bool { return m.cpus != nil }

// MemoryNodes reports whether containers can get memory of certain nodes.
func (m *Manager) MemoryNodes() bool { return m.memory != nil }

// Release ends what a pod has, and reports whether it had anything. An error of the checkpoint is logged: the next
// kubelet drops what belongs to pods that are gone.
func (m *Manager) Release(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.drop(uid) {
		return false
	}
	if err := m.save(); err != nil {
		klog.Background().Error(err, "Who has which processors and memory cannot be written down")
	}
	return true
}

// drop forgets what a pod has. The caller holds the lock.
func (m *Manager) drop(uid types.UID) (had bool) {
	if m.cpus != nil && len(m.cpus.held[uid]) > 0 {
		delete(m.cpus.held, uid)
		had = true
	}
	if m.memory != nil && len(m.memory.held[uid]) > 0 {
		delete(m.memory.held, uid)
		had = true
	}
	return had
}

// Place is where a container is to run, as the kernel writes sets. An empty text leaves it to the cgroup above.
type Place struct {
	CPUs, Mems string
	// Alone says that nobody else has these processors.
	Alone bool
}

// Of returns where a container is to run now.
func (m *Manager) Of(uid types.UID, container string) Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out Place
	if m.cpus != nil {
		set, alone := m.cpus.held[uid][container]
		if !alone {
			set = m.cpus.shared()
		}
		out.CPUs, out.Alone = set.String(), alone
	}
	if m.memory != nil {
		var nodes numa.Mask
		for _, b := range m.memory.held[uid][container] {
			nodes |= b.nodes
		}
		var words []string
		for _, n := range nodes.Nodes() {
			words = append(words, strconv.Itoa(n))
		}
		out.Mems = strings.Join(words, ",")
	}
	return out
}

// Exclusive returns the processors that a container has alone.
func (m *Manager) Exclusive(uid types.UID, container string) cpuset.CPUSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cpus == nil {
		return cpuset.New()
	}
	return m.cpus.held[uid][container]
}

// HasCPUs reports whether a container of a pod has processors alone.
func (m *Manager) HasCPUs(p *v1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cpus != nil && len(m.cpus.held[p.UID]) > 0
}

// Block is memory of one kind, in bytes, of one or several NUMA nodes.
type Block struct {
	Kind  v1.ResourceName
	Nodes []int
	Bytes uint64
}

// Memory returns what memory a container has.
func (m *Manager) Memory(uid types.UID, container string) []Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Block
	if m.memory != nil {
		for _, b := range m.memory.held[uid][container] {
			out = append(out, Block{b.kind, b.nodes.Nodes(), b.size})
		}
	}
	return out
}

// ForPods returns what containers could get alone if nobody had anything.
func (m *Manager) ForPods() (cpus cpuset.CPUSet, memory []Block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cpus != nil {
		cpus = m.cpus.machine.All().Difference(m.cpus.reserved)
	}
	if m.memory != nil {
		all := m.memory.empty()
		for _, id := range slices.Sorted(maps.Keys(all)) {
			for _, name := range slices.Sorted(maps.Keys(all[id].kinds)) {
				if n := all[id].kinds[name].allocatable; n > 0 {
					memory = append(memory, Block{name, []int{id}, n})
				}
			}
		}
	}
	return cpus, memory
}

// Counts returns the figures, and how many processors somebody has alone and how many could still be had.
func (m *Manager) Counts() (c Counts, alone, free int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cpus != nil {
		alone = m.cpus.exclusive().Size()
		free = m.cpus.free().Size()
	}
	return m.counts, alone, free
}

// Round gives one pod what it asks for. It ends with Commit or Abort.
type Round struct {
	m      *Manager
	pod    *v1.Pod
	cpus   map[string]cpuset.CPUSet // as they were
	blocks map[string][]block
}

// Begin begins to give a pod what it asks for. What pods have that are gone is free from now on.
func (m *Manager) Begin(p *v1.Pod) *Round {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range m.pods() {
		if alive, complete := m.o.Alive(uid); complete && !alive && uid != p.UID {
			m.drop(uid)
		}
	}
	r := &Round{m: m, pod: p}
	if m.cpus != nil {
		r.cpus = maps.Clone(m.cpus.held[p.UID])
	}
	if m.memory != nil {
		r.blocks = cloneBlocks(m.memory.held[p.UID])
	}
	return r
}

// pods returns the pods that have something. The caller holds the lock.
func (m *Manager) pods() []types.UID {
	all := map[types.UID]bool{}
	if m.cpus != nil {
		for uid := range m.cpus.held {
			all[uid] = true
		}
	}
	if m.memory != nil {
		for uid := range m.memory.held {
			all[uid] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// cloneBlocks copies the lists too, so that later changes do not reach them.
func cloneBlocks(in map[string][]block) map[string][]block {
	out := maps.Clone(in)
	for name := range out {
		out[name] = slices.Clone(out[name])
	}
	return out
}

// Hints returns, for each resource, from which NUMA nodes a container can have it; those of the pod as a whole for nil.
func (r *Round) Hints(c *v1.Container) [][]numa.Hint {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	var out [][]numa.Hint
	if t := r.m.cpus; t != nil {
		if c == nil {
			out = append(out, t.podHints(r.pod)...)
		} else {
			out = append(out, t.hints(r.pod, c)...)
		}
	}
	if t := r.m.memory; t != nil {
		if c == nil {
			out = append(out, t.podHints(r.pod)...)
		} else {
			out = append(out, t.hints(r.pod, c)...)
		}
	}
	return out
}

// Allocate gives a container what it asks for, near to the nodes of a hint. The error is in upstream's words.
func (r *Round) Allocate(_ context.Context, c *v1.Container, near numa.Hint) error {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cpus != nil && whole(r.pod, c) > 0 {
		m.counts.CPURequests++
		if err := m.cpus.allocate(r.pod, c, near.Nodes); err != nil {
			m.counts.CPUErrors++
			return err
		}
	}
	if m.memory != nil && mayPin(r.pod) {
		m.counts.MemoryRequests++
		if err := m.memory.allocate(r.pod, c, near); err != nil {
			m.counts.MemoryErrors++
			return err
		}
	}
	return nil
}

// Commit writes down what the pod has. After an error the pod has what it had before.
func (r *Round) Commit(context.Context) error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if !r.m.Active() {
		return nil
	}
	if err := r.m.save(); err != nil {
		r.restore()
		return fmt.Errorf("writing down the processors and the memory of the pod: %w", err)
	}
	return nil
}

// Abort takes what the pod got in this round.
func (r *Round) Abort() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.restore()
}

// restore gives the pod what it had before the round. The caller holds the lock.
func (r *Round) restore() {
	if t := r.m.cpus; t != nil {
		putBack(t.held, r.pod.UID, r.cpus)
	}
	if t := r.m.memory; t != nil {
		putBack(t.held, r.pod.UID, r.blocks)
	}
}

// putBack restores what a pod held before; a pod that held nothing has no entry.
func putBack[V any](held map[types.UID]map[string]V, uid types.UID, was map[string]V) {
	if len(was) == 0 {
		delete(held, uid)
		return
	}
	held[uid] = was
}
