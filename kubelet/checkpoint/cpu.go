package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"porthole.dev/porthole/internal/atomicfile"
)

// CPUs is the content of upstream's file cpu_manager_state: which processors belong to one container alone, by pod and
// container, and which are for all others. Sets are in the kernel's form, such as 0-3,8.
type CPUs struct {
	Policy  string
	Shared  string
	Entries map[string]map[string]string
}

// The names of types and fields below are part of the checksum (see sumAs).

type checksumValue uint64

type cpuManagerCheckpoint struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checksumValue                `json:"checksum"`
}

// WriteCPUs replaces the file at path.
func WriteCPUs(path string, c CPUs) error {
	if c.Entries == nil {
		c.Entries = map[string]map[string]string{}
	}
	f := &cpuManagerCheckpoint{PolicyName: c.Policy, DefaultCPUSet: c.Shared, Entries: c.Entries}
	f.Checksum = checksumValue(sumAs(f, upstreamState))
	return writeState(path, f)
}

// ReadCPUs reads the file at path; nil if there is none. The error is ErrCorrupt if the content was changed, or cut
// short.
func ReadCPUs(path string) (*CPUs, error) {
	f := &cpuManagerCheckpoint{Entries: map[string]map[string]string{}}
	found, err := readState(path, f)
	if !found || err != nil {
		return nil, err
	}
	if err := verifyState(path, f, &f.Checksum); err != nil {
		return nil, err
	}
	return &CPUs{f.PolicyName, f.DefaultCPUSet, f.Entries}, nil
}

// upstreamState turns the names of this package's types into those of upstream's.
var upstreamState = strings.NewReplacer("checkpoint.cpuManagerCheckpoint", "state.CPUManagerCheckpoint",
	"checkpoint.memoryManagerCheckpoint", "state.MemoryManagerCheckpoint", "checkpoint.checksumValue",
	"checksum.Checksum",
	"checkpoint.NUMANodeMap", "state.NUMANodeMap", "checkpoint.NUMANodeState", "state.NUMANodeState",
	"checkpoint.MemoryTable", "state.MemoryTable",
	"checkpoint.ContainerMemoryAssignments", "state.ContainerMemoryAssignments", "checkpoint.Block", "state.Block")

// writeState writes a checkpoint and flushes it to the disk, as upstream does (pkg/kubelet/util/store/filestore.go).
// A power failure would leave an empty file otherwise, with which no kubelet starts.
func writeState(path string, file any) error {
	text, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return atomicfile.WriteThrough(path, text, 0o600)
}

// readState reads a file of state into file.
func readState(path string, file any) (found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, file)
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", path, err)
	}
	return true, nil
}

// verifyState checks the checksum of a file of state, which file holds, and takes it out.
func verifyState(path string, file any, sum *checksumValue) error {
	named := uint64(*sum)
	*sum = 0
	return verify(path, named, sumAs(file, upstreamState))
}

// verify compares checksums. A file without one is taken as it is, as by upstream.
func verify(path string, named, is uint64) error {
	if named != 0 && named != is {
		return fmt.Errorf("reading %s: %w", path, ErrCorrupt)
	}
	return nil
}
