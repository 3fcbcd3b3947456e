package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/kubelet/volume/steps"
)

// FileName is the name of the files in which upstream's kubelet also writes down what it has of a volume.
const FileName = "vol_data.json"

// Record is what is written down of a volume before a driver is called, so that a later kubelet, ours or upstream's,
// can undo it. The fields without "porthole.dev" are upstream's; it ignores the others, and a record that it wrote
// lacks them.
type Record struct {
	Driver     string `json:"driverName"`
	Handle     string `json:"volumeHandle"`
	Name       string `json:"specVolID,omitempty"`
	Node       string `json:"nodeName,omitempty"`
	Attachment string `json:"attachmentID,omitempty"`
	Lifecycle  string `json:"volumeLifecycleMode,omitempty"`

	// State is the name of a progress; empty is begun.
	State string `json:"porthole.dev/state,omitempty"`
	// Boot tells the boot of the machine in which State was reached: mounts do not outlive it.
	Boot string `json:"porthole.dev/boot,omitempty"`
	// Size is what the volume was last known to have, in bytes.
	Size string `json:"porthole.dev/size,omitempty"`
	// Attach says that the volume was attached to the node by the controllers.
	Attach string `json:"porthole.dev/attach,omitempty"`
}

// ErrBroken is the error of a record that names no volume: the machine lost its power before the record was on the
// disk.
var ErrBroken = errors.New("it names no volume")

// Read reads a record. ok is false if there is none.
func Read(path string) (r Record, ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("reading what is known of a volume: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Driver == "" || r.Handle == "" {
		return Record{}, false, fmt.Errorf("reading what is known of a volume from %s: %w", path, ErrBroken)
	}
	return r, true, nil
}

// Write writes a record, and the folders above it.
func Write(path string, r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("writing down what is known of a volume: %w", err)
	}
	if err := atomicfile.Write(path, data, 0o640); err != nil {
		return fmt.Errorf("writing down what is known of a volume: %w", err)
	}
	return nil
}

// Key names the volume of a record.
func (r Record) Key() DeviceKey { return DeviceKey{r.Driver, r.Handle} }

// Reached returns how far a record says that its volume has come in this boot.
func (r Record) Reached(boot string) steps.Progress {
	switch {
	case r.State == steps.Awaited.String():
		return steps.Awaited
	case r.State == steps.Done.String() && r.Boot == boot:
		return steps.Done
	}
	return steps.Begun
}

// Bytes returns the size that the volume was last known to have, 0 if none is written down.
func (r Record) Bytes() int64 {
	n, _ := strconv.ParseInt(r.Size, 10, 64)
	return n
}
