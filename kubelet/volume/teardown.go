package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Teardown stops the watches of a pod, unmounts and removes its volumes. Call it when no container of the pod runs. It
// works from what is on disk, so it also serves pods of an earlier process; a pod without volumes is fine. It keeps the
// rest of the pod's folder (etc-hosts, termination messages), which Remove takes.
func (m *Manager) Teardown(ctx context.Context, uid types.UID) error {
	if err := checkID(string(uid)); err != nil {
		return err
	}
	m.mu.Lock()
	p := m.pods[uid]
	m.mu.Unlock()
	if p != nil {
		p.close()
		p.work.Lock()
		defer p.work.Unlock()
	}
	dir := m.podDir(uid)
	if err := errors.Join(removeMounted(filepath.Join(dir, "volume-subpaths"), 3), removeMounted(filepath.Join(dir, "volumes"), 2)); err != nil {
		return fmt.Errorf("tearing down volumes of pod %s: %w", uid, err)
	}
	m.mu.Lock()
	if m.pods[uid] == p {
		delete(m.pods, uid)
	}
	m.mu.Unlock()
	klog.FromContext(ctx).V(4).Info("Tore down volumes", "podUID", uid)
	return nil
}

// Remove tears down the volumes and removes the whole folder of the pod.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if err := m.Teardown(ctx, uid); err != nil {
		return err
	}
	if err := RemoveTree(m.podDir(uid)); err != nil {
		return fmt.Errorf("removing folder of pod %s: %w", uid, err)
	}
	return nil
}

// OnDisk lists the pods that have a folder, whoever made it: those that no longer exist are to be removed.
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
		if e.IsDir() && checkID(e.Name()) == nil {
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
	clear(p.tokens)
}

// removeMounted unmounts what is mounted exactly depth levels below dir, and then removes dir. A mount anywhere else
// stops the removal.
func removeMounted(dir string, depth int) error {
	if err := unmountLevel(dir, depth); err != nil {
		return err
	}
	return RemoveTree(dir)
}

func unmountLevel(dir string, depth int) error {
	if depth == 0 {
		for range 16 { // mounts may be stacked
			mounted, err := isMount(dir)
			if err != nil || !mounted {
				return err
			}
			if err := unmount(dir); err != nil {
				return err
			}
		}
		return fmt.Errorf("%s: still mounted after 16 attempts", dir)
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	var failed []error
	for _, e := range entries {
		if depth == 1 || e.IsDir() {
			failed = append(failed, unmountLevel(filepath.Join(dir, e.Name()), depth-1))
		}
	}
	return errors.Join(failed...)
}

// checkID refuses names that would lead out of their folder.
func checkID(id string) error {
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\\:\x00") {
		return fmt.Errorf("%q is not the uid of a pod", id)
	}
	return nil
}

func checkVolumeName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\:*?[\x00") {
		return fmt.Errorf("%q is not the name of a volume", name)
	}
	return nil
}
