package userspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"porthole.dev/porthole/internal/atomicfile"
)

// owned remembers which addresses are ours, in memory and in a file:
//
//	{"addresses": [{"address": "10.96.0.10", "interface": "vEthernet (nat)"}]}
//
// An address is in the file before it is added to the host and until it is removed, so that none is ever left behind.
type owned struct {
	path  string
	addrs map[netip.Addr]string // to the interface's name
	dirty bool
}

type ownedFile struct {
	Addresses []ownedAddress `json:"addresses"`
}

type ownedAddress struct {
	Address   netip.Addr `json:"address"`
	Interface string     `json:"interface"`
}

// loadOwned reads the file. Without a file nothing is ours. A file that cannot be understood is renamed to path.bad,
// and a warning is returned: its addresses then count as those of others, which are used and stay.
func loadOwned(path string) (o *owned, warning string, err error) {
	o = &owned{path: path, addrs: map[netip.Addr]string{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading which addresses are ours: %w", err)
	}

	var file ownedFile
	if err := json.Unmarshal(data, &file); err != nil {
		if err := os.Rename(path, path+".bad"); err != nil {
			return nil, "", fmt.Errorf("putting %s aside, which cannot be understood: %w", path, err)
		}
		return o,
			fmt.Sprintf("%s cannot be understood (%v); it is %s.bad now, and the addresses in it stay on this host",
				path, err, path), nil
	}
	for _, a := range file.Addresses {
		o.addrs[a.Address] = a.Interface
	}
	return o, "", nil
}

func (o *owned) add(addr netip.Addr, iface string) {
	o.dirty = o.dirty || o.addrs[addr] != iface
	o.addrs[addr] = iface
}

func (o *owned) remove(addr netip.Addr) {
	if _, ours := o.addrs[addr]; ours {
		delete(o.addrs, addr)
		o.dirty = true
	}
}

// save writes the file if something changed. A reader sees the old file or the new one.
func (o *owned) save() error {
	if !o.dirty {
		return nil
	}
	var file ownedFile
	for _, addr := range slices.SortedFunc(maps.Keys(o.addrs), netip.Addr.Compare) {
		file.Addresses = append(file.Addresses, ownedAddress{addr, o.addrs[addr]})
	}

	data, err := json.MarshalIndent(file, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(o.path), 0o755)
	}
	if err == nil {
		err = atomicfile.Write(o.path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("noting which addresses are ours: %w", err)
	}
	o.dirty = false
	return nil
}

// clear removes all addresses that are ours from the host.
func (o *owned) clear(host host) error {
	var errs []error
	for _, addr := range slices.SortedFunc(maps.Keys(o.addrs), netip.Addr.Compare) {
		if err := host.Remove(o.addrs[addr], addr); err != nil {
			errs = append(errs, err)
			continue
		}
		o.remove(addr)
	}
	return errors.Join(append(errs, o.save())...)
}
