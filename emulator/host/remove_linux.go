package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/confine"
	hcs "porthole.dev/porthole/emulator/hcsd/serve"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// removeTimeout is for what is left of containers: their programs, mounts and cgroups.
const removeTimeout = 30 * time.Second

// Remove removes everything that Create made, and what the host's HNS and programs left. What supervises its processes
// must have ended; programs that still run in its namespaces are killed. What is gone already is passed over.
func (s Store) Remove(h Host) error {
	if !h.Standalone {
		return fmt.Errorf("host %s belongs to the cluster in %s: `porthole down` removes it", h.Name, s.Dir)
	}
	own, err := serve.OwnNetns(h.Dir)
	if err != nil {
		return fmt.Errorf("removing host %s: %w", h.Name, err)
	}
	steps := []func() error{
		func() error { return killInNetns(append([]string{h.Netns}, own...)) },
		h.removeContainers,
		func() error { return wine.PrefixMount("", h.Dir).Unmount() },
		func() error { return confine.Unshare(h.Dir) },
		func() error { return h.Lab().RemoveHost(h.Name) },
		func() error { return deleteNetns(own) },
		h.Lab().RemoveRouter,
		func() error { return removeFolder(h.Dir) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("removing host %s: %w", h.Name, err)
		}
	}
	return nil
}

// removeContainers ends what the host's Host Compute Service has left, and takes its mounts and cgroups away.
func (h Host) removeContainers() error {
	if h.Runtime != ContainerdExe {
		return nil
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return fmt.Errorf("ending containers: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), slow.Limit(removeTimeout))
	defer cancel()
	return errors.Join(hcs.Clean(ctx, h.Dir, runc), platform.RemoveCgroup(ctx, h.Lab().Cgroup(h.Name)))
}

func deleteNetns(names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, platform.DeleteNetns(name))
	}
	return errors.Join(errs...)
}

// killInNetns ends all processes of the namespaces and waits until they are gone.
func killInNetns(names []string) error {
	return killWhile(strings.Join(names, ", "), func() ([]int, error) {
		var all []int
		for _, name := range names {
			pids, err := platform.NetnsPids(platform.NetnsPath(name))
			if err != nil {
				return nil, err
			}
			all = append(all, slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })...)
		}
		return all, nil
	})
}

// removeFolder removes nothing through a mount.
func removeFolder(dir string) error {
	mounts, err := platform.MountPointsBelow(dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%s is still mounted", mounts[0])
	}
	return beneath.RemoveAll(dir)
}
