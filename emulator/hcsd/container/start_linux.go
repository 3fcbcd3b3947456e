package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/slow"
)

const (
	startLimit = 30 * time.Second // for the wineserver of a container to listen
	every      = time.Millisecond // how often files that a container writes are looked for
)

// Start is what a container is made of.
type Start struct {
	ID, Key string // of the system; the key names the container of runc
	Doc     hcsd.Container
	DriveC  string // where its C: is mounted on this machine
	Network Network
	Domain  string // that it is joined to; "" for none
}

// start is a container that is being made.
type start struct {
	Start
	r      *Runtime
	b      bundle
	mounts []runtimeMount
	staged []string // mounts for mounts, until the container has its own
}

// Run makes the bundle of a container and starts it. It returns the first process when programs can be started in it.
func (r *Runtime) Run(ctx context.Context, o Start) (Process, error) {
	w := &start{Start: o, r: r, b: r.bundle(o.Key)}
	if o.Network.Path != "" { // runc opens one of its own
		if err := confine.OpenNetwork(o.Network.Path); err != nil {
			return Process{}, err
		}
	}
	if err := beneath.RemoveAll(w.b.dir); err != nil {
		return Process{}, err
	}
	defer func() { w.unstage(ctx) }()
	if err := w.addMounts(); err != nil {
		return Process{}, err
	}
	if err := w.addDrivers(); err != nil {
		return Process{}, fmt.Errorf("giving %s display adapters: %w", o.ID, err)
	}
	if err := w.make(); err != nil {
		return Process{}, fmt.Errorf("making the container of %s: %w", o.ID, err)
	}

	init, err := r.runc.run(ctx, o.Key, w.b.dir)
	if err != nil {
		return Process{}, err
	}
	limited, cancel := context.WithTimeout(ctx, slow.Limit(startLimit))
	defer cancel()
	err = poll(limited, every, func() bool { return w.b.listens() || !init.Alive() })
	if err == nil && !init.Alive() {
		err = hcsd.ErrUnexpectedExit
	}
	if err != nil {
		return Process{}, errors.Join(fmt.Errorf("waiting for the wineserver of %s: %w", o.ID, err),
			r.runc.delete(ctx, o.Key))
	}
	return init, nil
}

// listens reports whether the wineserver of the container has made its socket.
func (b bundle) listens() bool {
	found, err := filepath.Glob(filepath.Join(b.dir, "tmp", "*wine-*", "server-*", "socket"))
	return err == nil && len(found) > 0
}

// domainKey is where nltest of an emulated host looks for the domain that its container is joined to
// (emulator/dll/nltest.c).
const domainKey = `System\CurrentControlSet\Services\Netlogon\Parameters`

// make makes the folder of a container: registry, names, and runc's description.
func (w *start) make() error {
	for _, dir := range []string{w.b.dir, w.b.run(), w.b.guest(), w.b.pipes()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.Chmod(w.b.pipes(), 0o711); err != nil {
		return err
	}
	names := guest.Names{Searches: w.Network.Searches, Servers: w.Network.Servers}
	if w.Doc.GuestOs != nil {
		names.Hostname = w.Doc.GuestOs.HostName
	}
	system := names.Registry() + w.Doc.RegistryChanges.RegistryText(guest.RegistryKey)
	if w.Domain != "" {
		system += guest.RegistryKey(domainKey, "CredentialSpecDomain", w.Domain)
	}
	if err := guest.MakePrefix(w.b.dir, w.r.o.Template, map[string]string{"system.reg": system}); err != nil {
		return err
	}

	for _, d := range w.Doc.MappedDirectories {
		if drive, _, err := splitDrive(d.ContainerPath); err == nil && drive != 'c' {
			if err := guest.AddDrive(w.b.dir, drive); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(w.b.dir, "resolv.conf"), []byte(w.Network.resolvConf()), 0o644); err != nil {
		return err
	}
	// Windows knows localhost without a file
	if !slices.ContainsFunc(w.mounts, func(m runtimeMount) bool { return m.Destination == linuxHosts }) {
		own := filepath.Join(w.b.dir, "hosts")
		if err := os.WriteFile(own, []byte("127.0.0.1 localhost\n::1 localhost\n"), 0o644); err != nil {
			return err
		}
		w.mounts = append(w.mounts, runtimeMount{linuxHosts, "bind", own, []string{"rbind", "nosuid", "nodev", "ro"}})
	}
	for _, dir := range []string{"prefix", "tmp", "guest"} {
		if err := wine.Own(filepath.Join(w.b.dir, dir)); err != nil {
			return err
		}
	}
	return w.spec().write(w.b.dir)
}

const linuxHosts = "/etc/hosts"

// addMounts adds the mounts of folders and files of the host. The hosts file is also the one that Wine reads.
func (w *start) addMounts() error {
	for _, m := range outermostFirst(w.Doc.MappedDirectories) {
		source, err := w.r.host.Open(m.HostPath)
		if err != nil {
			return err
		}
		path, err := w.stage(source)
		source.Close()
		if err != nil {
			return err
		}

		target, err := inContainer(w.DriveC, m.ContainerPath)
		if err != nil {
			return err
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		w.mounts = append(w.mounts, bindOf(target, path, mode))
		if strings.EqualFold(target, guest.DriveC+"/"+guest.HostsFile) {
			w.mounts = append(w.mounts, bindOf(linuxHosts, path, "ro"))
		}
	}
	return nil
}

// outermostFirst sorts mounts so that none hides another that lies below it. Those of one depth stay in the order in
// which they were given.
func outermostFirst(of []hcsd.MappedDirectory) []hcsd.MappedDirectory {
	depth := func(m hcsd.MappedDirectory) int {
		return len(strings.FieldsFunc(m.ContainerPath, func(r rune) bool { return r == '\\' || r == '/' }))
	}
	sorted := slices.Clone(of)
	slices.SortStableFunc(sorted, func(a, b hcsd.MappedDirectory) int { return depth(a) - depth(b) })
	return sorted
}

// stage gives a container that is being started a file or folder of the host.
func (w *start) stage(source hostfs.Place) (path string, err error) {
	path, err = w.r.root().stage(source, fmt.Sprintf("%s-%d", filepath.Base(w.b.dir), len(w.staged)))
	w.staged = append(w.staged, path)
	return path, err
}

// unstage removes what stage has made; a container that has started has mounts of its own.
func (w *start) unstage(ctx context.Context) {
	for _, path := range w.staged {
		if err := w.r.root().unstage(path); err != nil {
			klog.FromContext(ctx).Error(err, "Removing a mount of a container that was started", "path", path)
		}
	}
}

// bindOf shows what was staged. No device can be opened by it.
func bindOf(target, staged, mode string) runtimeMount {
	return runtimeMount{target, "bind", staged, []string{"rbind", "nosuid", "nodev", mode}}
}

// Where a host has its drivers, and a container those of the host: C:\Windows\System32\containers\devices.def of
// Windows.
const (
	driverStore     = `C:\Windows\System32\DriverStore`
	hostDriverStore = `C:\Windows\System32\HostDriverStore`
	fileRepository  = `\FileRepository`
)

// addDrivers shows a container that has display adapters the host's drivers.
func (w *start) addDrivers() error {
	if !slices.ContainsFunc(w.Doc.AssignedDevices, hcsd.Device.IsDisplay) {
		return nil
	}
	if err := w.makeDriverStore(); err != nil {
		return err
	}
	store, err := w.r.host.Open(driverStore)
	if err != nil {
		return err
	}
	defer store.Close()
	path, err := w.stage(store)
	if err != nil {
		return err
	}
	target, err := inContainer(w.DriveC, hostDriverStore)
	if err != nil {
		return err
	}
	w.mounts = append(w.mounts, bindOf(target, path, "ro"))
	return nil
}

// makeDriverStore makes the folder of the host's drivers, if there is none.
func (w *start) makeDriverStore() error {
	folder, err := hostfs.Below(w.r.host.DriveC(), driverStore+fileRepository)
	if err != nil {
		return err
	}
	c, err := w.r.host.OpenC()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.MkdirAll(folder, 0o755)
}
