package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/atomicfile"
)

// Claim is a ResourceClaim that drivers of the node have prepared, or may have. PodUIDs are the pods that use it.
type Claim struct {
	ClaimUID    types.UID
	ClaimName   string
	Namespace   string
	PodUIDs     map[string]struct{}
	DriverState map[string]ClaimDriver
}

// ClaimDriver is the devices that one driver has given a claim.
type ClaimDriver struct{ Devices []ClaimDevice }

// ClaimDevice is one of them.
type ClaimDevice struct {
	PoolName     string
	DeviceName   string
	ShareID      *types.UID
	RequestNames []string
	CDIDeviceIDs []string
}

// claimFile is the file of claims. Data is JSON in JSON, so that its checksum is that of its bytes.
type claimFile struct {
	Data     string
	Checksum uint32
}

type claimData struct {
	Kind               string `json:"kind"`
	APIVersion         string `json:"apiVersion"`
	ClaimInfoStateList []Claim
}

// WriteClaims replaces the file at path.
func WriteClaims(path string, claims []Claim) error {
	data, err := json.Marshal(claimData{"DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1", claims})
	if err == nil {
		data, err = json.Marshal(claimFile{string(data), crc32.ChecksumIEEE(data)})
	}
	if err != nil {
		return fmt.Errorf("encoding the claims of pods: %w", err)
	}
	return atomicfile.WriteThrough(path, data, 0o600)
}

// ReadClaims reads the file at path. A file that does not exist has nothing. The error is ErrCorrupt if the content
// was changed, or cut short.
func ReadClaims(path string) ([]Claim, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var f claimFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && f.Checksum != crc32.ChecksumIEEE([]byte(f.Data)) {
		err = ErrCorrupt
	}
	var data claimData
	if err == nil {
		err = json.Unmarshal([]byte(f.Data), &data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the claims of pods from %s: %w", path, err)
	}
	return data.ClaimInfoStateList, nil
}
