package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/bootrecord"
)

// bootFile returns this agent's file of the boot record; "" on a system that has none, or if the boot is not known.
func (a *agent) bootFile() string {
	if a.maker.heldBack() == "" || a.o.BootID == "" || a.o.StateDir == "" {
		return ""
	}
	return filepath.Join(a.o.StateDir, bootrecord.Network)
}

// holdBack begins a boot: it removes the CNI configuration of an earlier one. A runtime reports its network as ready
// as soon as there is a configuration, and the kubelet would start pods on a network that does not work: after a
// reboot the host's endpoint may have no adapter, and adapters do not forward (projectcalico/calico#5828, #6656). step
// writes the configuration again when the network is right. holdBack does nothing if the network was right in this
// boot, so that a restart of this program changes nothing, or if the boot is not known.
func (a *agent) holdBack(ctx context.Context) error {
	file := a.bootFile()
	if file == "" || bootrecord.ReadyIn(file, a.o.BootID) == "" {
		return nil
	}
	if a.o.ConfDir != "" {
		name := a.maker.heldBack()
		err := os.Remove(filepath.Join(a.o.ConfDir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the CNI configuration of an earlier boot: %w", err)
		}
		if err == nil {
			a.stale = true
			klog.FromContext(ctx).
				Info("Removed the CNI configuration of an earlier boot until the pod network is right", "dir",
					a.o.ConfDir, "file", name)
		}
	}
	return bootrecord.Write(file, bootrecord.Record{BootID: a.o.BootID, Phase: bootrecord.Waiting})
}

// recordBoot tells the kubelet that the pod network of this boot is right. It writes nothing that is written already.
func (a *agent) recordBoot(pods netip.Prefix) error {
	file := a.bootFile()
	if file == "" {
		return nil
	}
	return bootrecord.Write(file,
		bootrecord.Record{BootID: a.o.BootID, Phase: bootrecord.Ready, PodCIDR: pods.String()})
}
