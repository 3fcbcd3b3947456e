// Package bootrecord is the boot record of a Windows node: what its programs have brought about since the machine has
// started. A program reads there whether what it needs is of this boot or of an earlier one, also while the API server
// is away.
//
// The record is a folder with one file for each program, which that program alone writes:
//
//	boot.json           porthole-routes   the pod network and the CNI configuration are right
//	boot-services.json  kube-proxy        all load balancers in HNS were written in this boot
//	boot-pods.json      kubelet           pods may start; not before boot.json says ready (see Gate)
package bootrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"porthole.dev/porthole/internal/atomicfile"
)

// The files of the record.
const (
	Network  = "boot.json"
	Services = "boot-services.json"
	Pods     = "boot-pods.json"
)

// Folder is where the programs of a Windows node keep the record unless their flags name another place.
const Folder = `C:\ProgramData\Porthole`

// Phase is how far a program is.
type Phase string

// The phases. A file of an earlier boot, or none, means that the program has not begun in this boot.
const (
	Waiting Phase = "waiting"
	Ready   Phase = "ready"
)

// Record is the content of one file.
type Record struct {
	BootID string    `json:"bootID"` // as status.nodeInfo.bootID of the node has it
	Phase  Phase     `json:"phase"`
	Since  time.Time `json:"since"` // when the phase began
	// PodCIDR is the node's pod range; in boot.json only.
	PodCIDR string `json:"podCIDR,omitempty"`
}

// Read reads a file of the record. The error of a missing file is os.ErrNotExist.
func Read(file string) (Record, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// Write replaces a file of the record, whose folder it makes. It writes nothing if the file says the same of any time.
// Since is set here. When Write returns nil, the record outlives a power failure.
func Write(file string, r Record) error {
	have, err := Read(file)
	if r.Since = have.Since; err == nil && have == r {
		return nil
	}
	r.Since = time.Now().UTC()
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the boot record: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("writing the boot record: %w", err)
	}
	if err := atomicfile.WriteThrough(file, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the boot record: %w", err)
	}
	return nil
}

// Remove removes a file of the record, and what a write of it that was cut short left. It is no error if there is none.
func Remove(file string) error {
	for _, name := range []string{file, file + ".new"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the boot record: %w", err)
		}
	}
	return nil
}

// ReadyIn returns why a file does not say that its program is ready in a boot; "" if it does.
func ReadyIn(file, bootID string) (why string) {
	r, err := Read(file)
	switch {
	case err != nil:
		return err.Error()
	case r.BootID != bootID:
		return fmt.Sprintf("%s is of boot %s, this is boot %s", file, r.BootID, bootID)
	case r.Phase != Ready:
		return fmt.Sprintf("%s says %q", file, r.Phase)
	}
	return ""
}
