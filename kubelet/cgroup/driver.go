package cgroup

import (
	"errors"
	"fmt"
	"path"
)

// The drivers, by the names that the configuration and CRI have for them.
const (
	Cgroupfs = "cgroupfs"
	Systemd  = "systemd"
)

// driver makes the cgroups of a Tree, which says which there are and with what limits. files and slice implement it.
type driver interface {
	// path returns where the cgroup with these names, from the top, is in the kernel's tree.
	path(names ...string) string
	// named returns where the cgroup is that a configuration calls name.
	named(name string) string
	// containers returns where the cgroup of a container may be, by the path of its pod's.
	containers(pod, id string) []string
	// ensure makes the cgroup and all above it, and sets its limits; those that are zero stay as they are.
	ensure(path string, l limits) error
	// resize is Tree.Resize for one cgroup.
	resize(path string, l limits, change func() error) error
	// remove removes the cgroup and those below it, with the processes in them. It succeeds if there is none.
	remove(path string) error
}

// defaultPeriod is the period of CPU quotas in microseconds, upstream's default (cpuCFSQuotaPeriod).
const defaultPeriod = 100000

// errUndecided says that nobody knows yet how cgroups are made.
var errUndecided = errors.New("the runtime has not told yet which cgroup driver it uses")

// undecided stands for a driver until there is one. It has no cgroups and makes none.
type undecided struct{}

func (undecided) path(...string) string                     { return "" }
func (undecided) named(string) string                       { return "" }
func (undecided) containers(string, string) []string        { return nil }
func (undecided) ensure(string, limits) error               { return errUndecided }
func (undecided) resize(string, limits, func() error) error { return errUndecided }
func (undecided) remove(string) error                       { return errUndecided }

// files makes cgroups as the folders that the kernel shows.
type files struct{}

func (files) path(names ...string) string        { return path.Join(append([]string{"/"}, names...)...) }
func (files) named(name string) string           { return path.Join("/", name) }
func (files) containers(pod, id string) []string { return []string{path.Join(pod, id)} }
func (files) ensure(path string, l limits) error { return ensure(path, l) }
func (files) remove(path string) error           { return Remove(path) }
func (files) resize(path string, l limits, change func() error) error {
	return resize(path, l, change, nil)
}

// newDriver returns the driver of that name. It returns an error if systemd is to make cgroups and cannot be reached.
func newDriver(name string) (driver, error) {
	switch name {
	case Cgroupfs:
		return files{}, nil
	case Systemd:
		d, err := newSlices()
		if err != nil {
			return nil,
				fmt.Errorf("systemd makes the container runtime's cgroups, and the kubelet does not reach it: %w. "+
					"Start this machine with systemd, or set SystemdCgroup = false in the options of containerd's runtime and restart containerd", err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("the cgroup driver %q is not known (%s or %s)", name, Cgroupfs, Systemd)
}
