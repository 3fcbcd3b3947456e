package pin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/checkpoint"
	"porthole.dev/porthole/kubelet/numa"
)

// memory keeps account of the memory of each NUMA node that containers have been promised. It changes nothing on the
// machine itself.
type memory struct {
	machine  *numa.Machine
	reserved map[int]map[v1.ResourceName]uint64
	held     map[types.UID]map[string][]block // by pod and container
}

// block is memory of one kind that a container has, in bytes. nodes has one or several nodes; over several, a block
// spreads as it comes. An init container's block shrinks when a later container of the pod takes it over.
type block struct {
	kind  v1.ResourceName
	nodes numa.Mask
	size  uint64
}

// usage is what is left of each kind of memory on each node, and over which nodes blocks of it spread.
type usage map[int]*nodeUsage

// nodeUsage is the memory of one NUMA node, and what lies in it.
type nodeUsage struct {
	blocks int       // that lie in the node, also partly
	group  numa.Mask // the nodes over which these spread
	kinds  map[v1.ResourceName]*kindUsage
}

// kindUsage are bytes.
type kindUsage struct{ total, reserved, allocatable, free uint64 }

func isMemory(name v1.ResourceName) bool {
	return name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

func zero() *resource.Quantity { return resource.NewQuantity(0, resource.DecimalSI) }

// hugePages returns the resource's name of huge pages of a size in bytes.
func hugePages(size uint64) v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(int64(size), resource.BinarySI).String())
}

// empty returns what there is before anybody has anything.
func (m *memory) empty() usage {
	out := usage{}
	for _, n := range m.machine.Nodes {
		u := &nodeUsage{group: numa.MaskOf(n.ID), kinds: map[v1.ResourceName]*kindUsage{}}
		var huge uint64
		for size, pages := range n.HugePages {
			name := hugePages(size)
			kept := m.reserved[n.ID][name]
			u.kinds[name] = &kindUsage{total: size * pages, reserved: kept,
				allocatable: size*pages - min(kept, size*pages)}
			huge += size * pages
		}
		kept := m.reserved[n.ID][v1.ResourceMemory]
		u.kinds[v1.ResourceMemory] = &kindUsage{total: n.Memory, reserved: kept,
			allocatable: n.Memory - min(kept+huge, n.Memory)}
		for _, k := range u.kinds {
			k.free = k.allocatable
		}
		out[n.ID] = u
	}
	return out
}

// usage returns what is left now.
func (m *memory) usage() (usage, error) {
	out := m.empty()
	for _, uid := range slices.Sorted(maps.Keys(m.held)) {
		for _, name := range slices.Sorted(maps.Keys(m.held[uid])) {
			for _, b := range m.held[uid][name] {
				if err := out.put(b); err != nil {
					return nil, fmt.Errorf("[memorymanager] (pod: %s, container: %s) %w", uid, name, err)
				}
			}
		}
	}
	return out, nil
}

// put takes a block from what is left.
func (u usage) put(b block) error {
	rest := b.size
	for _, id := range b.nodes.Nodes() {
		n := u[id]
		if n == nil {
			return errors.New("the memory assignment uses the NUMA that does not exist")
		}
		k := n.kinds[b.kind]
		if k == nil {
			return errors.New("the memory assignment uses memory resource that does not exist")
		}
		n.blocks++
		n.group = b.nodes
		taken := min(rest, k.free)
		k.free -= taken
		rest -= taken
	}
	return nil
}

// sums adds up kinds of memory over some nodes.
func (u usage) sums(nodes numa.Mask, kind v1.ResourceName) (free, allocatable uint64) {
	for _, id := range nodes.Nodes() {
		if n := u[id]; n != nil && n.kinds[kind] != nil {
			free += n.kinds[kind].free
			allocatable += n.kinds[kind].allocatable
		}
	}
	return free, allocatable
}

// mixes reports whether a block over these nodes would spread over others than those of blocks that are there. A node
// that has blocks of its own alone takes none that spreads, and the other way round.
func (u usage) mixes(nodes numa.Mask) bool {
	for _, id := range nodes.Nodes() {
		if n := u[id]; n.blocks > 0 && n.group != nodes && nodes.Count() > 1 {
			return true
		}
	}
	return false
}

// amounts are bytes by kind of memory.
type amounts map[v1.ResourceName]uint64

// wanted returns what a container of a pod asks for; nil if it gets no memory of its own.
func wanted(p *v1.Pod, c *v1.Container) amounts {
	if !mayPin(p) {
		return nil
	}
	out := amounts{}
	for name, q := range c.Resources.Requests {
		if isMemory(name) {
			out[name] = uint64(q.Value())
		}
	}
	return out
}

// wantedOfPod returns what the containers of a pod have at the same time.
func wantedOfPod(p *v1.Pod) amounts {
	first := amounts{}
	sidecars := amounts{}
	apps := amounts{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		for name, n := range wanted(p, c) {
			if isSidecar(c) {
				sidecars[name] += n
			} else {
				first[name] = max(first[name], sidecars[name]+n)
			}
		}
	}
	for i := range p.Spec.Containers {
		for name, n := range wanted(p, &p.Spec.Containers[i]) {
			apps[name] += n
		}
	}
	out := amounts{}
	for name := range apps {
		out[name] = max(first[name], apps[name]+sidecars[name])
	}
	return out
}

// reusable is memory that init containers of a pod have, by the nodes that it is of. The next container can have it.
type reusable map[numa.Mask]amounts

// reusable leaves out the memory of sidecars, which keep it.
func (m *memory) reusable(p *v1.Pod) reusable {
	out := reusable{}
	for i := range p.Spec.InitContainers {
		one := &p.Spec.InitContainers[i]
		for _, b := range m.held[p.UID][one.Name] {
			if out[b.nodes] == nil {
				out[b.nodes] = amounts{}
			}
			if !isSidecar(one) {
				out[b.nodes][b.kind] += b.size
			}
		}
	}
	return out
}

// hints returns from which nodes a container can have its memory.
func (m *memory) hints(p *v1.Pod, c *v1.Container) [][]numa.Hint {
	want := wanted(p, c)
	if blocks, ok := m.held[p.UID][c.Name]; ok {
		return regenerate(blocks, want)
	}
	return m.lists(want, m.reusable(p))
}

// podHints returns from which nodes a pod can have all its memory.
func (m *memory) podHints(p *v1.Pod) [][]numa.Hint {
	want := wantedOfPod(p)
	if !mayPin(p) || len(want) == 0 {
		return nil
	}
	for _, c := range containersOf(p) {
		if blocks, ok := m.held[p.UID][c.Name]; ok {
			return regenerate(blocks, want)
		}
	}
	return m.lists(want, nil)
}

// regenerate returns the hints that lead to the blocks that a container has. Where they are not what it asks for it
// has no preference: it keeps what it has.
func regenerate(blocks []block, want amounts) [][]numa.Hint {
	if len(blocks) != len(want) {
		return nil
	}
	var out [][]numa.Hint
	for _, b := range blocks {
		if n, ok := want[b.kind]; !ok || n != b.size {
			return nil
		}
		out = append(out, []numa.Hint{{Nodes: b.nodes, Preferred: true}})
	}
	return out
}

// lists returns one list of hints for each kind of memory: nodes for one kind have to have all others too, so that the
// lists are equal.
func (m *memory) lists(want amounts, reuse reusable) [][]numa.Hint {
	if len(want) == 0 {
		return nil
	}
	hints := m.fitting(want, reuse)
	if len(hints) == 0 {
		return nil // as upstream: then allocate says what is missing
	}
	out := make([][]numa.Hint, len(want))
	for i := range out {
		out[i] = hints
	}
	return out
}

// fitting returns each set of nodes from which all of want can be had.
func (m *memory) fitting(want amounts, reuse reusable) []numa.Hint {
	now, err := m.usage()
	if err != nil {
		return nil
	}
	ids := m.machine.NodeIDs()
	least := len(ids)
	var out []numa.Hint
	for _, nodes := range numa.Masks(ids) {
		has, could := true, true
		for name, n := range want {
			free, allocatable := now.sums(nodes, name)
			could = could && allocatable >= n
			has = has && free+reuse[nodes][name] >= n
		}
		if could {
			least = min(least, nodes.Count())
		}
		alone := nodes.Count() > 1 || now[nodes.Nodes()[0]].group.Count() <= 1
		if could && has && alone && !now.mixes(nodes) {
			out = append(out, numa.Hint{Nodes: nodes})
		}
	}
	return numa.Prefer(out, least)
}

// allocate gives a container its memory. near are the nodes that the hints of all its resources lead to; without any,
// the best ones are taken. If they are preferred, others would break a promise. One that has its memory keeps it.
func (m *memory) allocate(p *v1.Pod, c *v1.Container, near numa.Hint) error {
	if !mayPin(p) {
		return nil
	}
	if _, ok := m.held[p.UID][c.Name]; ok {
		return nil
	}
	want := wanted(p, c)
	now, err := m.usage()
	if err != nil {
		return err
	}

	if near.Nodes == 0 {
		best, ok := bestOf(m.fitting(want, m.reusable(p)), 0)
		switch {
		case !ok:
			return errors.New(
				"[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
		case near.Preferred && !best.Preferred:
			return errors.New("[memorymanager] failed to find the default preferred hint")
		}
		near = best
	}
	// The hint may lead to nodes that have too little; more nodes are added to them.
	if !now.has(near.Nodes, want) {
		best, ok := bestOf(m.fitting(want, m.reusable(p)), near.Nodes)
		switch {
		case !ok:
			return errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
		case near.Preferred && !best.Preferred:
			return errors.New("[memorymanager] failed to find the extended preferred hint")
		}
		near = best
	}
	if now.mixes(near.Nodes) {
		return errors.New("[memorymanager] preferred hint violates NUMA node allocation")
	}

	var blocks []block
	for _, name := range slices.Sorted(maps.Keys(want)) {
		blocks = append(blocks, block{name, near.Nodes, want[name]})
	}
	if m.held[p.UID] == nil {
		m.held[p.UID] = map[string][]block{}
	}
	m.takeOver(p, c, blocks)
	m.held[p.UID][c.Name] = blocks
	return nil
}

// has reports whether all of want is free.
func (u usage) has(nodes numa.Mask, want amounts) bool {
	for name, n := range want {
		if free, _ := u.sums(nodes, name); free < n {
			return false
		}
	}
	return true
}

// bestOf returns the best of the hints that have all nodes of within.
func bestOf(hints []numa.Hint, within numa.Mask) (best numa.Hint, ok bool) {
	better := func(a, b numa.Hint) int {
		if a.Preferred != b.Preferred {
			if a.Preferred {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Nodes.Count(), b.Nodes.Count()), cmp.Compare(a.Nodes, b.Nodes))
	}
	hints = slices.DeleteFunc(slices.Clone(hints), func(h numa.Hint) bool { return h.Nodes&within != within })
	if len(hints) == 0 {
		return best, false
	}
	return slices.MinFunc(hints, better), true
}

// takeOver shrinks the blocks of the init containers before c by what its blocks take of them.
func (m *memory) takeOver(p *v1.Pod, c *v1.Container, blocks []block) {
	for _, b := range blocks {
		rest := b.size
		for i := range p.Spec.InitContainers {
			earlier := &p.Spec.InitContainers[i]
			if earlier.Name == c.Name {
				break
			}
			if isSidecar(earlier) {
				continue
			}
			for j := range m.held[p.UID][earlier.Name] {
				if e := &m.held[p.UID][earlier.Name][j]; e.kind == b.kind && e.nodes == b.nodes {
					taken := min(e.size, rest)
					e.size -= taken
					rest -= taken
				}
			}
		}
	}
}

// recall takes in what an earlier kubelet wrote down.
func (m *memory) recall(f *checkpoint.Memory) error {
	if len(f.Machine) == 0 {
		if len(f.Entries) > 0 {
			return errors.New("[memorymanager] machine state can not be empty when it has memory assignments")
		}
		return nil
	}

	held := map[types.UID]map[string][]block{}
	for uid, containers := range f.Entries {
		held[types.UID(uid)] = map[string][]block{}
		for name, list := range containers {
			for _, b := range list {
				held[types.UID(uid)][name] = append(held[types.UID(uid)][name],
					block{b.Type, numa.MaskOf(b.NUMAAffinity...), b.Size})
			}
		}
	}

	m.held = held
	now, err := m.usage()
	if err != nil {
		return err
	}
	if !sameMachine(now, f.Machine) {
		return errors.New("[memorymanager] the expected machine state is different from the real one")
	}
	return nil
}

// sameMachine compares what should be left with what is written down. How blocks that spread lie in the nodes of a
// group depends on the order in which they came, so that only the group as a whole is compared.
func sameMachine(now usage, file checkpoint.NUMANodeMap) bool {
	if len(now) != len(file) {
		return false
	}

	for id, n := range now {
		f := file[id]
		if f == nil || f.NumberOfAssignments != n.blocks || numa.MaskOf(f.Cells...) != n.group ||
			len(f.MemoryMap) != len(n.kinds) {
			return false
		}
		for name, k := range n.kinds {
			t := f.MemoryMap[name]
			if t == nil || t.TotalMemSize != k.total || t.SystemReserved != k.reserved ||
				t.Allocatable != k.allocatable {
				return false
			}
			var free uint64
			for _, other := range f.Cells {
				if file[other] != nil && file[other].MemoryMap[name] != nil {
					free += file[other].MemoryMap[name].Free
				}
			}
			if should, _ := now.sums(n.group, name); should != free {
				return false
			}
		}
	}
	return true
}

// record returns the table as the checkpoint has it.
func (m *memory) record() checkpoint.Memory {
	if m == nil {
		return checkpoint.Memory{Policy: memoryNone}
	}
	out := checkpoint.Memory{Policy: memoryStatic, Machine: checkpoint.NUMANodeMap{},
		Entries: checkpoint.ContainerMemoryAssignments{}}
	now, err := m.usage()
	if err != nil { // recall has checked all nodes and kinds
		now = m.empty()
	}

	for id, n := range now {
		f := &checkpoint.NUMANodeState{NumberOfAssignments: n.blocks, Cells: n.group.Nodes(),
			MemoryMap: map[v1.ResourceName]*checkpoint.MemoryTable{}}
		for name, k := range n.kinds {
			f.MemoryMap[name] = &checkpoint.MemoryTable{TotalMemSize: k.total, SystemReserved: k.reserved,
				Allocatable: k.allocatable,
				Reserved:    k.allocatable - k.free, Free: k.free}
		}
		out.Machine[id] = f
	}

	for uid, containers := range m.held {
		out.Entries[string(uid)] = map[string][]checkpoint.Block{}
		for name, blocks := range containers {
			list := []checkpoint.Block{}
			for _, b := range blocks {
				list = append(list, checkpoint.Block{NUMAAffinity: b.nodes.Nodes(), Type: b.kind, Size: b.size})
			}
			out.Entries[string(uid)][name] = list
		}
	}
	return out
}
