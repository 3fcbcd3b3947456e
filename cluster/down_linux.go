package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/cluster/steps"
	"porthole.dev/porthole/cluster/supervise"
	hcs "porthole.dev/porthole/emulator/hcsd/serve"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// DownOptions are the options of Down. With Purge the state folder is removed too, including the caches that make the
// next start quick.
type DownOptions struct {
	Layout layout.Layout
	Purge  bool
	Out    io.Writer
}

// Down ends and removes everything that Up made, also after an interrupted Up or a killed supervisor. A step that
// finds nothing to do succeeds. A step that fails does not stop the others, but then the state folder is kept.
func Down(ctx context.Context, o DownOptions) error {
	l := o.Layout
	if os.Geteuid() != 0 {
		return errors.New("removing a local cluster needs root: run it with sudo")
	}
	if _, err := os.Stat(l.Dir); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(o.Out, "no cluster in %s\n", l.Dir)
		return nil
	}

	unlock, err := lock(l)
	if err != nil {
		return err
	}
	defer unlock()
	keep, err := keptHosts(l)
	if err != nil {
		return err
	}

	if o.Purge && len(keep) > 0 {
		return fmt.Errorf("%s holds host %s, which is not the cluster's: `porthole host delete %[2]s` first", l.Dir,
			keep[0])
	}
	r := steps.Begin(o.Out)
	c, err := config.Read(l)
	// without the file no node was made: namespaces are another folder's
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c = config.Largest(nameOfHosts(l)) // as much of it as exists
	}

	var errs []error
	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"processes", func() error { return supervise.Shutdown(l.RunDir(), slow.Limit(5*time.Second)) }},
		{"containers", func() error { return errors.Join(killContainers(c), killInNetns(c)) }},
		{"mounts", func() error { return errors.Join(removeRoots(l, c), unmountBelow(l, keep)) }},
		{"network namespaces", func() error { return removeNetwork(l, c) }},
		{"cgroups", func() error { return removeCgroups(ctx, c) }},
		{"state", func() error { return removeState(l, keep, o.Purge) }},
	} {
		if s.what == "state" && len(errs) > 0 { // it tells the next run what there is to remove
			errs = append(errs, errors.New("the state folder is kept: run `porthole down` again"))
			break
		}
		if err := s.do(); err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", s.what, err))
			continue
		}
		r.Done(s.what + " removed")
	}
	return errors.Join(errs...)
}

// nameOfHosts returns the name of the cluster that the hosts in the folder belong to. It is for a cluster whose
// configuration cannot be read.
func nameOfHosts(l layout.Layout) string {
	hosts, _ := host.Store{Dir: l.Dir}.List() // those that it can read
	for _, h := range hosts {
		if h.Cluster != "" {
			return h.Cluster
		}
	}
	return ""
}

// killContainers ends every process in the cgroups of the cluster's pods.
func killContainers(c config.Cluster) error {
	pids := map[int]bool{}
	for _, n := range c.Nodes() {
		for _, dir := range platform.Cgroups(c.Lab().Cgroup(n.Name)) {
			err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
					return ignoreGone(err)
				}
				data, err := os.ReadFile(path)
				for _, pid := range processesOf(string(data)) {
					pids[pid] = true
				}
				return ignoreGone(err)
			})
			if err != nil {
				return err
			}
		}
	}

	return killAll(pids)
}

// processesOf returns the processes that a file cgroup.procs names. For those of another PID namespace the kernel
// writes 0: a signal to 0 would end this process and its group.
func processesOf(procs string) (pids []int) {
	for f := range strings.FieldsSeq(procs) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// removeRoots removes the root folders of the containers of Windows nodes, which are not in the state folder.
func removeRoots(l layout.Layout, c config.Cluster) error {
	var errs []error
	for _, n := range c.Nodes() {
		if n.Windows {
			errs = append(errs, hcs.RemoveRoot(l.Host(n.Name)))
		}
	}
	return errors.Join(errs...)
}

// killInNetns ends the processes that are left in the hosts' namespaces: shims and Wine's helpers.
func killInNetns(c config.Cluster) error {
	pids := map[int]bool{}
	var names []string
	if len(c.Nodes()) > 0 {
		names = append(names, c.Lab().RouterNetns())
	}

	for _, n := range c.Nodes() {
		names = append(names, c.Lab().Netns(n.Name))
	}
	for _, name := range names {
		found, err := platform.NetnsPids(platform.NetnsPath(name))
		if err != nil {
			return err
		}
		for _, pid := range found {
			pids[pid] = true
		}
	}
	return killAll(pids)
}

// killAll kills and waits until the processes are gone.
func killAll(pids map[int]bool) error {
	for pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing pid %d: %w", pid, err)
		}
	}
	for pid := range pids {
		if !supervise.WaitEnd(pid, slow.Limit(10*time.Second)) {
			return fmt.Errorf("pid %d does not end", pid)
		}
	}
	return nil
}

// keptHosts names the hosts of `porthole host create` in the state folder: they are not the cluster's.
func keptHosts(l layout.Layout) ([]string, error) {
	hosts, err := host.Store{Dir: l.Dir}.List()
	var names []string
	for _, h := range hosts {
		if h.Standalone {
			names = append(names, h.Name)
		}
	}
	return names, err
}

// unmountBelow unmounts everything in the state folder, the innermost first.
func unmountBelow(l layout.Layout, keep []string) error {
	for range 3 { // what a mount hid shows after it is gone
		mounts, err := mountsBelow(l, keep)
		if err != nil || len(mounts) == 0 {
			return err
		}
		for _, m := range mounts {
			if err := platform.Detach(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// mountsBelow lists the mounts in the state folder, except for those of the hosts to keep, the innermost first.
func mountsBelow(l layout.Layout, keep []string) ([]string, error) {
	mounts, err := platform.MountPointsBelow(l.Dir)
	mounts = slices.DeleteFunc(mounts, func(path string) bool {
		return slices.ContainsFunc(keep,
			func(name string) bool { return path == l.Host(name) || strings.HasPrefix(path, l.Host(name)+"/") })
	})
	slices.Reverse(mounts)
	return mounts, err
}

func removeNetwork(l layout.Layout, c config.Cluster) error {
	var errs []error
	for _, n := range c.Nodes() {
		errs = append(errs, c.Lab().RemoveHost(n.Name))
		own, err := serve.OwnNetns(l.Host(n.Name)) // those that a host's HNS made
		errs = append(errs, err)
		for _, name := range own {
			errs = append(errs, platform.DeleteNetns(name))
		}
	}
	return errors.Join(append(errs, network.RemoveFiles(c), c.Lab().RemoveRouter())...)
}

// removeCgroups removes the nodes' cgroups.
func removeCgroups(ctx context.Context, c config.Cluster) error {
	var errs []error
	for _, n := range c.Nodes() {
		errs = append(errs, platform.RemoveCgroup(ctx, c.Lab().Cgroup(n.Name)))
	}
	return errors.Join(append(errs, platform.ReturnToCgroupRoot())...)
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeState removes the files of this run. Caches stay unless purge is set. It fails if something is still mounted,
// so that nothing is removed through a mount.
func removeState(l layout.Layout, keep []string, purge bool) error {
	left, err := mountsBelow(l, keep)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("still mounted: %v", left)
	}

	if purge {
		return beneath.RemoveAll(l.Dir)
	}
	hosts, err := os.ReadDir(l.Hosts())
	errs := []error{ignoreGone(err)}
	for _, h := range hosts {
		if !slices.Contains(keep, h.Name()) {
			errs = append(errs, beneath.RemoveAll(l.Host(h.Name())))
		}
	}

	if len(keep) == 0 {
		errs = append(errs, beneath.RemoveAll(l.Hosts()))
	}
	for _, path := range []string{l.ControlPlane(), l.PKI(), l.Kubeconfig(), l.RegistryLogin(),
		l.Logs()} {
		errs = append(errs, beneath.RemoveAll(path))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}

	// The next Down needs these to know what to remove, so they go last.
	return errors.Join(beneath.RemoveAll(l.RunDir()), beneath.RemoveAll(l.ConfigFile()))
}
