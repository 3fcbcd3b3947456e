package bootrecord

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Boot is a whole record, for people and for `-o json`. A file that is missing is nil.
type Boot struct {
	BootID   string  `json:"bootID"` // of this boot; "" if it is not known
	Network  *Record `json:"network,omitempty"`
	Services *Record `json:"services,omitempty"`
	Pods     *Record `json:"pods,omitempty"`
}

// ReadBoot reads the record in a folder. The error names files that cannot be read; the others are returned all the
// same.
func ReadBoot(folder, bootID string) (Boot, error) {
	var errs []error
	read := func(name string) *Record {
		r, err := Read(filepath.Join(folder, name))
		if err == nil {
			return &r
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		return nil
	}
	b := Boot{BootID: bootID, Network: read(Network), Services: read(Services), Pods: read(Pods)}
	return b, errors.Join(errs...)
}

// Empty reports whether no program has recorded anything.
func (b Boot) Empty() bool { return b.Network == nil && b.Services == nil && b.Pods == nil }

// String is one line, such as "boot 42: pod network 10.244.7.0/24 ready since 09:15:02, services ready since 09:15:04,
// pods wait".
func (b Boot) String() string {
	network := "pod network"
	if b.Network != nil && b.Network.PodCIDR != "" {
		network += " " + b.Network.PodCIDR
	}
	id := b.BootID
	if id == "" {
		id = "(not known)"
	}
	return "boot " + id + ": " +
		strings.Join([]string{b.line(network, b.Network), b.line("services", b.Services), b.line("pods", b.Pods)}, ", ")
}

func (b Boot) line(what string, r *Record) string {
	switch {
	case r == nil:
		return what + " never ready"
	case r.BootID != b.BootID && b.BootID != "":
		return fmt.Sprintf("%s of boot %s", what, r.BootID)
	}
	return fmt.Sprintf("%s %s since %s", what, r.Phase, r.Since.Local().Format(time.DateTime))
}
