package host

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A host's memory: a Windows Server with containers needs 2 GB (learn.microsoft.com, "Windows container
// requirements"); the programs of an emulated one need less than minMemory.
const minMemory = 256 << 20

// ParseMemory reads a host's memory as Kubernetes writes quantities: "4Gi". Empty is 0, the memory of the machine.
func ParseMemory(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("not a quantity of bytes such as 4Gi: %w", err)
	}
	if q.Value() < minMemory {
		return 0, CheckMemory(uint64(max(q.Value(), 1)))
	}
	return uint64(q.Value()), nil
}

// CheckMemory reports whether a host can have so many bytes of memory; 0 is that of the machine.
func CheckMemory(bytes uint64) error {
	if bytes > 0 && bytes < minMemory {
		return fmt.Errorf("a host needs %d MiB of memory at least", minMemory>>20)
	}
	return nil
}
