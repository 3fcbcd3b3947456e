package serve

import (
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/objects"
)

// OwnNetns names the network namespaces that the data plane of the host in hostDir made itself, read from the state on
// disk. They outlive the daemon: whatever removes the host must remove them. It returns none if there is no state.
func OwnNetns(hostDir string) ([]string, error) {
	state, err := objects.Read(objects.File(hostDir))
	if err != nil || state == nil {
		return nil, err
	}
	var names []string
	for _, n := range hnsd.Desired(state).Namespaces {
		if !n.Host && n.Path == "" {
			names = append(names, kernel.OwnNetns(n.ID))
		}
	}
	return names, nil
}
