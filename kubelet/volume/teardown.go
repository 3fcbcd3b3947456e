package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/paths"
	"porthole.dev/porthole/kubelet/volume/records"
)

// Teardown stops the watches of a pod, unmounts its volumes and removes them. Call it when no container of the pod
// runs. It works from what is on disk, so that it also serves pods of an earlier process; it succeeds for a pod without
// volumes. It keeps the rest of the pod's folder (etc-hosts, termination messages), which Remove removes.
func (m *Manager) Teardown(ctx context.Context, uid types.UID) error {
	if err := paths.CheckID(string(uid)); err != nil {
		return err
	}
	m.mu.Lock()
	p := m.pods[uid]
	m.mu.Unlock()
	if p != nil { // no goroutine writes into the volumes from here on
		p.close()
		p.work.Lock()
		defer p.work.Unlock()
	}

	dir := m.opts.podDir(uid)
	subPaths := disk.RemoveMounted(filepath.Join(dir, "volume-subpaths"), 3, disk.UnmountAll)
	drivers := m.storage.EndAll(ctx, uid)
	volumes := m.removeVolumes(ctx, uid, drivers != nil)
	if err := errors.Join(subPaths, drivers, volumes); err != nil {
		return fmt.Errorf("tearing down volumes of pod %s: %w", uid, err)
	}

	m.mu.Lock()
	if m.pods[uid] == p {
		delete(m.pods, uid)
	}
	m.mu.Unlock()
	m.storage.Forget(uid)
	klog.FromContext(ctx).V(4).Info("Tore down volumes", "podUID", uid)
	return nil
}

// removeVolumes unmounts and removes the folders of a pod's volumes. With keepDrivers it leaves those of drivers: what
// is not taken away yet must stay known.
func (m *Manager) removeVolumes(ctx context.Context, uid types.UID, keepDrivers bool) error {
	dir := m.opts.volumesDir(uid)
	err := disk.AtLevel(dir, 1, func(plugin string) error {
		name := filepath.Base(plugin)
		if keepDrivers && name == records.CSIPlugin {
			return nil
		}
		return disk.RemoveMounted(plugin, 1, func(volume string) error {
			began := time.Now()
			err := kindAt(name).teardown(ctx, volume)
			m.measure(strings.Replace(name, "~", "/", 1), "volume_unmount", began, err)
			return err
		})
	})
	if err != nil || keepDrivers {
		return err
	}
	return disk.RemoveTree(dir)
}

// Remove tears down the volumes and removes the whole folder of the pod.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if err := m.Teardown(ctx, uid); err != nil {
		return err
	}
	if err := disk.RemoveTree(m.opts.podDir(uid)); err != nil {
		return fmt.Errorf("removing folder of pod %s: %w", uid, err)
	}
	return nil
}

// OnDisk lists the pods that have a folder, regardless of which process created it. Those that no longer exist are to
// be removed with Remove.
func (m *Manager) OnDisk() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(m.opts.RootDir, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing pod folders: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() && paths.CheckID(e.Name()) == nil {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}

// Close stops the background work of all pods and leaves the disk as it is.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, p := range m.pods {
		p.close()
		delete(m.pods, uid)
	}
}

// close ends what runs for the pod and forgets its secrets. It may be called again.
func (p *podVolumes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.stop != nil {
		p.stop()
	}
	for ref, release := range p.watches {
		release()
		delete(p.watches, ref)
	}
	p.tokens.Clear()
	p.certs.Clear()
}
