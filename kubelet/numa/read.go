package numa

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// Read reads the machine from sysfs: the folder that is usually /sys. A kernel without NUMA has no nodes there; the
// machine is then one node with memory bytes.
func Read(sys fs.FS, memory uint64) (*Machine, error) {
	online, err := readSet(sys, "devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("reading which processors are online: %w", err)
	}
	m := &Machine{CPUs: map[int]Place{}}
	for _, id := range online.List() {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology", id)
		socket, err := readNumber(sys, path.Join(dir, "physical_package_id"))
		if err != nil {
			return nil, fmt.Errorf("reading where processor %d is: %w", id, err)
		}
		threads, err := readSet(sys, path.Join(dir, "thread_siblings_list"))
		if err != nil {
			return nil, fmt.Errorf("reading where processor %d is: %w", id, err)
		}
		core := id
		if list := threads.List(); len(list) > 0 {
			core = list[0]
		}
		m.CPUs[id] = Place{Socket: max(int(socket), 0), Core: core} // -1 on some virtual machines
	}

	ids, err := readSet(sys, "devices/system/node/online")
	if errors.Is(err, fs.ErrNotExist) {
		// 10 is the kernel's for a node itself
		m.Nodes = []Node{{Memory: memory, HugePages: map[uint64]uint64{}, Distances: []uint64{10}}}
		m.addCaches(sys)
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the NUMA nodes: %w", err)
	}
	for _, id := range ids.List() {
		if err := m.addNode(sys, id); err != nil {
			return nil, fmt.Errorf("reading NUMA node %d: %w", id, err)
		}
	}
	m.addCaches(sys)
	return m, nil
}

// addCaches reads which processors have a cache of the third level or above together that not all of their node have.
// Not every kernel tells.
func (m *Machine) addCaches(sys fs.FS) {
	nodes := m.groups(m.All(), byNode)
	for id, p := range m.CPUs {
		p.Cache = p.Socket
		files, _ := fs.Glob(sys, fmt.Sprintf("devices/system/cpu/cpu%d/cache/index*", id)) // the pattern is right
		for _, dir := range files {
			level, err := readNumber(sys, path.Join(dir, "level"))
			number, err2 := readNumber(sys, path.Join(dir, "id"))
			shared, err3 := readSet(sys, path.Join(dir, "shared_cpu_list"))
			if errors.Join(err, err2, err3) == nil && level > 2 && shared.Size() != nodes[p.Node].Size() {
				p.Cache = int(number)
				break
			}
		}
		m.CPUs[id] = p
	}
}

// addNode reads one NUMA node.
func (m *Machine) addNode(sys fs.FS, id int) error {
	if id >= maxNodes {
		return fmt.Errorf("its number is not below %d", maxNodes)
	}
	dir := fmt.Sprintf("devices/system/node/node%d", id)
	near, err := readSet(sys, path.Join(dir, "cpulist"))
	if err != nil {
		return err
	}
	for _, cpu := range near.List() {
		if p, known := m.CPUs[cpu]; known {
			p.Node = id
			m.CPUs[cpu] = p
		}
	}

	n := Node{ID: id, HugePages: map[uint64]uint64{}}
	if n.Memory, err = readMemTotal(sys, path.Join(dir, "meminfo")); err != nil {
		return err
	}
	text, err := fs.ReadFile(sys, path.Join(dir, "distance"))
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(string(text)) {
		d, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return fmt.Errorf("its distances: %w", err)
		}
		n.Distances = append(n.Distances, d)
	}

	sizes, err := fs.ReadDir(sys, path.Join(dir, "hugepages"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range sizes {
		kilo, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue // not a size
		}
		pages, err := readNumber(sys, path.Join(dir, "hugepages", e.Name(), "nr_hugepages"))
		if err != nil {
			return err
		}
		n.HugePages[kilo<<10] = uint64(pages)
	}
	m.Nodes = append(m.Nodes, n)
	slices.SortFunc(m.Nodes, func(a, b Node) int { return a.ID - b.ID })
	return nil
}

// readMemTotal reads how many bytes a node has.
func readMemTotal(sys fs.FS, file string) (uint64, error) {
	text, err := fs.ReadFile(sys, file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) >= 4 && words[2] == "MemTotal:" { // Node 0 MemTotal: 24684084 kB
			kilo, err := strconv.ParseUint(words[3], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("its memory: %w", err)
			}
			return kilo << 10, nil
		}
	}
	return 0, fmt.Errorf("%s does not say how much memory it has", file)
}

func readSet(sys fs.FS, file string) (cpuset.CPUSet, error) {
	text, err := fs.ReadFile(sys, file)
	if err != nil {
		return cpuset.New(), err
	}
	return cpuset.Parse(strings.TrimSpace(string(text)))
}

func readNumber(sys fs.FS, file string) (int64, error) {
	text, err := fs.ReadFile(sys, file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
