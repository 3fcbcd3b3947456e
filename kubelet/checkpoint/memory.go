package checkpoint

import v1 "k8s.io/api/core/v1"

// Memory is the content of upstream's file memory_manager_state.
type Memory struct {
	Policy  string
	Machine NUMANodeMap
	Entries ContainerMemoryAssignments
}

// NUMANodeMap is what each NUMA node has of memory.
type NUMANodeMap map[int]*NUMANodeState

// NUMANodeState is what one NUMA node has. NumberOfAssignments counts the blocks that lie in it, also partly. Cells
// are the nodes over which such blocks spread.
type NUMANodeState struct {
	NumberOfAssignments int                              `json:"numberOfAssignments"`
	MemoryMap           map[v1.ResourceName]*MemoryTable `json:"memoryMap"`
	Cells               []int                            `json:"cells"`
}

// MemoryTable is how much there is of one kind of memory, in bytes.
type MemoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// Block is an amount of memory, in bytes, of some NUMA nodes.
type Block struct {
	NUMAAffinity []int           `json:"numaAffinity"`
	Type         v1.ResourceName `json:"type"`
	Size         uint64          `json:"size"`
}

// ContainerMemoryAssignments are the blocks by pod and container.
type ContainerMemoryAssignments map[string]map[string][]Block

type memoryManagerCheckpoint struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	Checksum     checksumValue              `json:"checksum"`
}

// WriteMemory replaces the file at path.
func WriteMemory(path string, m Memory) error {
	if m.Machine == nil {
		m.Machine = NUMANodeMap{}
	}
	if m.Entries == nil {
		m.Entries = ContainerMemoryAssignments{}
	}
	f := &memoryManagerCheckpoint{PolicyName: m.Policy, MachineState: m.Machine, Entries: m.Entries}
	f.Checksum = checksumValue(sumAs(f, upstreamState))
	return writeState(path, f)
}

// ReadMemory reads the file at path; nil if there is none. The error is ErrCorrupt if the content was changed, or cut
// short.
func ReadMemory(path string) (*Memory, error) {
	f := &memoryManagerCheckpoint{MachineState: NUMANodeMap{}, Entries: ContainerMemoryAssignments{}}
	found, err := readState(path, f)
	if !found || err != nil {
		return nil, err
	}
	if err := verifyState(path, f, &f.Checksum); err != nil {
		return nil, err
	}
	return &Memory{f.PolicyName, f.MachineState, f.Entries}, nil
}
