package testkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
)

// Close ends every process of the World and removes all that it made. It may be called at any time.
func (w *World) Close() error {
	var errs []error
	var containerd *Process
	for _, p := range slices.Backward(w.procs) {
		if p.Name == "containerd" {
			if containerd == nil { // one that was restarted has ended before
				containerd = p
			}
			continue
		}
		p.Stop()
	}
	if w.Runtime != nil {
		errs = append(errs, w.RemovePods())
	}
	if w.conn != nil {
		w.conn.Close()
	}
	if containerd != nil {
		containerd.Stop()
	}
	errs = append(errs, w.endRest(), w.unmount(), platform.RemoveCgroup(context.Background(), "/"+w.Name),
		platform.DeleteNetns(w.Name), os.RemoveAll(w.Dir))
	return errors.Join(errs...)
}

// RemovePods stops and removes everything in containerd.
func (w *World) RemovePods() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := w.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("listing sandboxes: %w", err)
	}
	var errs []error
	for _, s := range list.Items {
		_, err := w.Runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: s.Id})
		if err == nil {
			_, err = w.Runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: s.Id})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// endRest kills what is still in the namespace, such as shims whose containerd could not be asked.
func (h *home) endRest() error {
	if !platform.NetnsExists(h.Name) {
		return nil
	}
	pids, err := platform.NetnsPids(h.Netns())
	for _, pid := range pids {
		if pid == os.Getpid() {
			return errors.Join(err, fmt.Errorf("this process is in network namespace %s", h.Name))
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
	}
	return err
}

// Mounts lists what is mounted below the World's folder, the deepest last.
func (h *home) Mounts() ([]string, error) {
	mounts, err := platform.MountPointsBelow(h.Dir)
	slices.Sort(mounts)
	return mounts, err
}

// unmount detaches the newest mounts first, because they may be on older ones.
func (h *home) unmount() error {
	mounts, err := h.Mounts()
	for _, m := range slices.Backward(mounts) {
		err = errors.Join(err, platform.Detach(m))
	}
	return err
}

// Cgroups lists the cgroups below the World's own, relative to it, of all hierarchies.
func (h *home) Cgroups() ([]string, error) { return cgroupsBelow(h.Name) }

// cgroupsBelow returns the paths of all cgroups below name, relative to it, each once even if several hierarchies have
// it.
func cgroupsBelow(name string) ([]string, error) {
	var out []string
	for _, base := range platform.Cgroups("/" + name) {
		err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != base {
				out = append(out, strings.TrimPrefix(path, base+"/"))
			}
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
