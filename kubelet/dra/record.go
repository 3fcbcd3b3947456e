package dra

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/checkpoint"
)

// fileName is that of upstream's file.
const fileName = "dra_manager_state"

func (m *Manager) file() string { return filepath.Join(m.o.Dir, fileName) }

// recall takes in what an earlier kubelet wrote down.
func (m *Manager) recall() error {
	list, err := checkpoint.ReadClaims(m.file())
	if err != nil {
		return fmt.Errorf(
			"%w (without it nobody undoes what drivers have prepared: drain the node, and remove the file)", err)
	}
	for _, r := range list {
		c := &claim{uid: r.ClaimUID, pods: map[types.UID]bool{}, drivers: map[string][]Device{}}
		for uid := range r.PodUIDs {
			c.pods[types.UID(uid)] = true
		}
		for driver, has := range r.DriverState {
			c.drivers[driver] = nil
			for _, d := range has.Devices {
				c.drivers[driver] = append(c.drivers[driver],
					Device{driver, d.PoolName, d.DeviceName, d.ShareID, d.RequestNames, d.CDIDeviceIDs})
			}
		}
		m.table[claimKey{r.Namespace, r.ClaimName}] = c
	}
	return nil
}

// save writes the table down. The caller holds m.mu.
func (m *Manager) save() error {
	list := []checkpoint.Claim{}
	for key, c := range m.table {
		one := checkpoint.Claim{ClaimUID: c.uid, ClaimName: key.name, Namespace: key.namespace,
			PodUIDs: map[string]struct{}{}, DriverState: map[string]checkpoint.ClaimDriver{}}
		for uid := range c.pods {
			one.PodUIDs[string(uid)] = struct{}{}
		}
		for _, driver := range slices.Sorted(maps.Keys(c.drivers)) {
			var of checkpoint.ClaimDriver
			for _, d := range c.drivers[driver] {
				of.Devices = append(of.Devices,
					checkpoint.ClaimDevice{PoolName: d.Pool, DeviceName: d.Name, ShareID: d.Share,
						RequestNames: d.Requests, CDIDeviceIDs: d.CDI})
			}
			one.DriverState[driver] = of
		}
		list = append(list, one)
	}

	slices.SortFunc(list, func(a, b checkpoint.Claim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ClaimName, b.ClaimName))
	})
	if err := checkpoint.WriteClaims(m.file(), list); err != nil {
		return fmt.Errorf("writing down the claims of pods: %w", err)
	}
	return nil
}
