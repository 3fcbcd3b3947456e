package links

import (
	"fmt"

	"porthole.dev/porthole/emulator/dataplane/kernel"
)

// managed is a resource in the kernel.
type managed interface {
	// create makes the resource, or corrects what differs of one that is there.
	create(d *Host) error
	// delete removes it. If it is gone already, that is success.
	delete(d *Host) error
}

// Create makes a resource, or corrects what differs of one that is there.
func (d *Host) Create(r kernel.Resource) error {
	m, err := manage(r)
	if err != nil {
		return err
	}
	return m.create(d)
}

// Delete removes a resource. If it is gone already, that is success.
func (d *Host) Delete(r kernel.Resource) error {
	m, err := manage(r)
	if err != nil {
		return err
	}
	return m.delete(d)
}

func manage(r kernel.Resource) (managed, error) {
	switch r := r.(type) {
	case kernel.Netns:
		return netns{r}, nil
	case kernel.Bridge:
		return bridge{r}, nil
	case kernel.BridgeAddr:
		return bridgeAddr{r}, nil
	case kernel.Port:
		return port{r}, nil
	case kernel.Switch:
		return card{r}, nil
	case kernel.Tunnel:
		return tunnel{r}, nil
	case kernel.Peer:
		return peer{r}, nil
	case kernel.Path:
		return path{r}, nil
	case kernel.Arrival:
		return arrival{r}, nil
	case kernel.Keep:
		return keep{r}, nil
	}
	return nil, fmt.Errorf("there is no way to carry a %T", r)
}
