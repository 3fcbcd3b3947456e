// Package checkpoint holds files of state in the form in which upstream's kubelet reads and writes them, so that a
// node can change between the two kubelets while its pods run. The checksum of a file is that of the values printed
// with their types: the names of the package and of its types are part of the form.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	"k8s.io/utils/dump"

	"porthole.dev/porthole/internal/atomicfile"
)

// DevicesPerNUMA are ids of devices by the NUMA node that they are near to; -1 stands for none.
type DevicesPerNUMA map[int64][]string

// PodDevicesEntry is what one container has of one resource. AllocResp is the device plugin's answer in protobuf.
type PodDevicesEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     DevicesPerNUMA
	AllocResp     []byte
}

// checkpointData is the content of the file of devices.
type checkpointData struct {
	PodDeviceEntries  []PodDevicesEntry
	RegisteredDevices map[string][]string
}

// deviceFile is the file of devices.
type deviceFile struct {
	Data     checkpointData
	Checksum uint64
}

// ErrCorrupt says that a file does not have the checksum that it names.
var ErrCorrupt = errors.New("the checksum of the file is wrong")

// WriteDevices replaces the file at path. registered are the ids of the devices of each resource that has a plugin.
func WriteDevices(path string, entries []PodDevicesEntry, registered map[string][]string) error {
	f := deviceFile{Data: checkpointData{entries, registered}}
	f.Checksum = checksum(f.Data)
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding the devices of pods: %w", err)
	}
	return atomicfile.WriteThrough(path, text, 0o600)
}

// ReadDevices reads the file at path. A file that does not exist has nothing. The error is ErrCorrupt if the content
// was changed, or cut short.
func ReadDevices(path string) (entries []PodDevicesEntry, registered map[string][]string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	var f deviceFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && f.Checksum != checksum(f.Data) {
		err = ErrCorrupt
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the devices of pods from %s: %w", path, err)
	}
	return f.Data.PodDeviceEntries, f.Data.RegisteredDevices, nil
}

// checksum is upstream's (pkg/kubelet/checkpointmanager/checksum of 1.36.3).
func checksum(data any) uint64 { return sumAs(data, strings.NewReplacer()) }

// sumAs is checksum for data whose types have other names upstream.
func sumAs(data any, names *strings.Replacer) uint64 {
	h := fnv.New32a()
	fmt.Fprint(h, names.Replace(dump.ForHash(data)))
	return uint64(h.Sum32())
}
