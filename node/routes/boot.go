package routes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/nodeapi"
)

// bootMark is a file beside the CNI configuration with the id of the boot in which the configuration was written last. Container
// runtimes ignore it: they read only files that end in .conf, .conflist or .json.
const bootMark = "10-porthole.boot"

// holdBack removes a CNI configuration of an earlier boot. A runtime reports its network as ready as soon as there is a
// configuration, and the kubelet would start pods on a network that does not work: after a reboot the host's endpoint may have no
// adapter, and adapters do not forward (projectcalico/calico#5828, #6656). step writes the configuration again when the network is
// right. holdBack does nothing if the configuration is of this boot, so that a restart of this program changes nothing, or if the
// boot is not known.
func (a *agent) holdBack(ctx context.Context) error {
	name := a.maker.heldBack()
	if name == "" || a.o.ConfDir == "" || a.o.BootID == "" {
		return nil
	}
	if boot, err := os.ReadFile(filepath.Join(a.o.ConfDir, bootMark)); err == nil && strings.TrimSpace(string(boot)) == a.o.BootID {
		return nil
	}

	err := os.Remove(filepath.Join(a.o.ConfDir, name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("removing the CNI configuration of an earlier boot: %w", err)
	}
	a.stale = true
	klog.FromContext(ctx).Info("Removed the CNI configuration of an earlier boot until the pod network is right", "dir", a.o.ConfDir, "file", name)
	return nil
}

// tellBoot tells the kubelet that the pod network is that of this boot (see nodeapi.NetworkBoot). It writes nothing that the node has
// already.
func (a *agent) tellBoot(ctx context.Context) error {
	if a.maker.heldBack() == "" || a.o.ConfDir == "" || a.o.BootID == "" {
		return nil
	}
	if n := a.cluster.Self(); n != nil && n.Annotations[nodeapi.NetworkBoot] == a.o.BootID {
		return nil
	}
	if err := a.cluster.Annotate(ctx, map[string]string{nodeapi.NetworkBoot: a.o.BootID}); err != nil {
		return fmt.Errorf("telling the kubelet that the pod network is ready: %w", err)
	}
	return nil
}

// markBoot records that the CNI configuration was written in this boot.
func (a *agent) markBoot() error {
	if a.maker.heldBack() == "" || a.o.ConfDir == "" || a.o.BootID == "" {
		return nil
	}
	path := filepath.Join(a.o.ConfDir, bootMark)
	if boot, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(boot)) == a.o.BootID {
		return nil
	}
	if err := atomicfile.Write(path, []byte(a.o.BootID+"\n"), 0o644); err != nil {
		return fmt.Errorf("recording the boot of the CNI configuration: %w", err)
	}
	return nil
}
