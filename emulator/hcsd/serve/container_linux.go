package serve

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
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/slow"
)

const (
	startLimit  = 30 * time.Second // for the wineserver of a container to listen
	programWait = 60 * time.Second // for a program to be loaded
	every       = time.Millisecond // how often files that a container writes are looked for
	// exit code of a program that was terminated (ERROR_PROCESS_ABORTED): unverified, no. 92
	killed = 1067
)

// systemCalls answers the calls about systems, and about the service.
type systemCalls struct{ *Service }

func (s systemCalls) createSystem(_ context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.systems[c.subject()]; old != nil && old.State == hcsd.Stopped {
		return result{}, hcsd.ErrSystemExists // somebody has it open
	}
	if _, err := s.systems.Create(c.subject(), c.document(), now()); err != nil {
		return result{}, err
	}
	s.live[c.subject()] = newContainer(c.subject())
	if err := s.save(); err != nil {
		return result{}, err
	}
	s.hold(c, 0)
	return result{}, nil
}

func (s systemCalls) openSystem(_ context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.systems.Open(c.subject()); err != nil {
		return result{}, err
	}
	s.hold(c, 0)
	return result{}, nil
}

// hold counts a handle of the caller's connection; under mu.
func (s *Service) hold(c call, pid uint32) {
	live := s.live[c.subject()]
	if pid == 0 {
		live.handles++
	} else {
		live.Programs[pid].handles++
	}
	c.opens(c.subject(), pid)
}

// get finds the system of a call and its container; under mu.
func (s *Service) get(c call) (*hcsd.System, *container, error) {
	sys, err := s.systems.Get(c.subject())
	if err != nil {
		return nil, nil, err
	}
	return sys, s.live[c.subject()], nil
}

// startSystem makes the container and starts it. Until it runs, other calls see it as created.
func (s systemCalls) startSystem(ctx context.Context, c call) (result, error) {
	s.mu.Lock()
	sys, live, err := s.get(c)
	if err == nil {
		err = sys.Begin()
	}
	if err != nil {
		s.mu.Unlock()
		return result{}, err
	}
	doc := *sys.Doc.Container
	s.mu.Unlock()
	live.launching <- struct{}{}
	defer func() { <-live.launching }()

	init, err := s.startContainer(ctx, live, doc)
	if err == nil {
		if err = s.mapPipes(ctx, sys, live, init); err != nil {
			err = errors.Join(err, s.rt.delete(ctx, live.key))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = sys.Begin() // it may have been started or ended by another call meanwhile
	}
	if err != nil {
		return result{}, errors.Join(err, s.rt.delete(ctx, live.key))
	}
	live.Init = &init
	s.tell([]hcsd.Notification{sys.Run(now())})
	go s.watchContainer(ctx, live, init)
	return result{}, s.save()
}

// startContainer makes the bundle of a container and starts it. It returns when programs can be started in it.
func (s systemCalls) startContainer(ctx context.Context, c *container, doc hcsd.Container) (process, error) {
	dir := s.o.systemDir(c.key)
	w := specOptions{dir: dir, cgroup: filepath.Join(s.o.cgroup(), c.key), container: &doc}
	var err error
	if w.driveC, err = s.mountedLayer(doc.Storage.Path); err != nil {
		return process{}, err
	}
	net, err := s.networkOf(ctx, doc.Networking)
	if err != nil {
		return process{}, err
	}
	w.netns = net.path
	if w.netns != "" { // runc opens one of its own
		if err := confine.OpenNetwork(w.netns); err != nil {
			return process{}, err
		}
	}
	if err := beneath.RemoveAll(dir); err != nil {
		return process{}, err
	}
	defer func() { s.unstage(ctx, w) }()
	if err := s.addMounts(&w, doc.MappedDirectories); err != nil {
		return process{}, err
	}
	if err := s.addDrivers(&w); err != nil {
		return process{}, fmt.Errorf("giving %s display adapters: %w", c.id, err)
	}
	if err := s.makeBundle(w, net); err != nil {
		return process{}, fmt.Errorf("making the container of %s: %w", c.id, err)
	}

	init, err := s.rt.run(ctx, c.key, dir)
	if err != nil {
		return process{}, err
	}
	limited, cancel := context.WithTimeout(ctx, slow.Limit(startLimit))
	defer cancel()
	err = poll(limited, every, func() bool { return listens(dir) || !init.alive() })
	if err == nil && !init.alive() {
		err = hcsd.ErrUnexpectedExit
	}
	if err != nil {
		return process{}, errors.Join(fmt.Errorf("waiting for the wineserver of %s: %w", c.id, err),
			s.rt.delete(ctx, c.key))
	}
	return init, nil
}

// listens reports whether the wineserver of the container in dir has made its socket.
func listens(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, "tmp", "*wine-*", "server-*", "socket"))
	return err == nil && len(found) > 0
}

// domainKey is where nltest of an emulated host looks for the domain that its container is joined to
// (emulator/dll/nltest.c).
const domainKey = `System\CurrentControlSet\Services\Netlogon\Parameters`

// makeBundle makes the folder of a container: registry, names, and runc's description.
func (s systemCalls) makeBundle(w specOptions, net network) error {
	for _, dir := range []string{w.dir, filepath.Join(w.dir, "run"), runDir(w.dir), pipesDir(w.dir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.Chmod(pipesDir(w.dir), 0o711); err != nil {
		return err
	}
	names := guest.Names{Searches: net.searches, Servers: net.servers}
	if w.container.GuestOs != nil {
		names.Hostname = w.container.GuestOs.HostName
	}
	s.mu.Lock()
	domain, err := s.credentials.Domain(w.container.ContainerCredentialGuard)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	system := names.Registry() + w.container.RegistryChanges.RegistryText(guest.RegistryKey)
	if domain != "" {
		system += guest.RegistryKey(domainKey, "CredentialSpecDomain", domain)
	}
	if err := guest.MakePrefix(w.dir, s.o.Template, map[string]string{"system.reg": system}); err != nil {
		return err
	}

	for _, d := range w.container.MappedDirectories {
		if drive, _, err := splitDrive(d.ContainerPath); err == nil && drive != 'c' {
			if err := guest.AddDrive(w.dir, drive); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "resolv.conf"), []byte(net.resolvConf()), 0o644); err != nil {
		return err
	}
	// Windows knows localhost without a file
	if !slices.ContainsFunc(w.mounts, func(m runtimeMount) bool { return m.Destination == linuxHosts }) {
		own := filepath.Join(w.dir, "hosts")
		if err := os.WriteFile(own, []byte("127.0.0.1 localhost\n::1 localhost\n"), 0o644); err != nil {
			return err
		}
		w.mounts = append(w.mounts, runtimeMount{linuxHosts, "bind", own, []string{"rbind", "nosuid", "nodev", "ro"}})
	}
	for _, dir := range []string{"prefix", "tmp", "guest"} {
		if err := wine.Own(filepath.Join(w.dir, dir)); err != nil {
			return err
		}
	}
	return s.o.spec(w).write(w.dir)
}

const linuxHosts = "/etc/hosts"

// addMounts adds the mounts of folders and files of the host. The hosts file is also the one that Wine reads.
func (s systemCalls) addMounts(w *specOptions, of []hcsd.MappedDirectory) error {
	for _, m := range outermostFirst(of) {
		source, err := s.openHost(m.HostPath)
		if err != nil {
			return err
		}
		path, err := s.stage(w, source)
		source.Close()
		if err != nil {
			return err
		}

		target, err := inContainer(w.driveC, m.ContainerPath)
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
func (s systemCalls) stage(w *specOptions, source place) (path string, err error) {
	path, err = s.o.root().stage(source, fmt.Sprintf("%s-%d", filepath.Base(w.dir), len(w.staged)))
	w.staged = append(w.staged, path)
	return path, err
}

func (s systemCalls) unstage(ctx context.Context, w specOptions) {
	for _, path := range w.staged {
		if err := s.o.root().unstage(path); err != nil {
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
func (s systemCalls) addDrivers(w *specOptions) error {
	if !slices.ContainsFunc(w.container.AssignedDevices, hcsd.Device.IsDisplay) {
		return nil
	}
	if err := s.makeDriverStore(); err != nil {
		return err
	}
	store, err := s.openHost(driverStore)
	if err != nil {
		return err
	}
	defer store.Close()
	path, err := s.stage(w, store)
	if err != nil {
		return err
	}
	target, err := inContainer(w.driveC, hostDriverStore)
	if err != nil {
		return err
	}
	w.mounts = append(w.mounts, bindOf(target, path, "ro"))
	return nil
}

// makeDriverStore makes the folder of the host's drivers, if there is none.
func (s systemCalls) makeDriverStore() error {
	folder, err := below(s.o.driveC(), driverStore+fileRepository)
	if err != nil {
		return err
	}
	c, err := s.o.openC()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.MkdirAll(folder, 0o755)
}

// watchContainer waits until a container has ended.
func (s systemCalls) watchContainer(ctx context.Context, c *container, init process) {
	if err := init.wait(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Watching a container", "system", c.id)
		}
		return
	}
	if err := s.rt.delete(ctx, c.key); err != nil {
		klog.FromContext(ctx).Error(err, "Removing a container that has ended", "system", c.id)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	sys := s.systems[c.id]
	if sys == nil || s.live[c.id] != c {
		return
	}
	status := uint32(0)
	if !c.stopping {
		status = hcsd.ErrUnexpectedExit.Code
	}
	s.tell(sys.End(status, killed))
	close(c.ended)
	if c.handles <= 0 {
		s.forget(ctx, c)
		return
	}
	if err := s.save(); err != nil {
		klog.FromContext(ctx).Error(err, "A container has ended", "system", c.id)
	}
}

// stopSystem is shutdown and termination, which differ on Windows in what programs can do before. Here both end them.
func (s systemCalls) stopSystem(ctx context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, live, err := s.get(c)
	if err != nil {
		return result{}, err
	}
	err = sys.Stop()
	if errors.Is(err, hcsd.ErrPending) {
		s.terminate(ctx, live)
	}
	return result{}, err
}

// terminate begins the end of a system; under mu.
func (s systemCalls) terminate(ctx context.Context, c *container) {
	if c.stopping {
		return
	}
	c.stopping = true
	if c.Init == nil {
		s.tell(s.systems[c.id].End(0, killed))
		return
	}
	init := *c.Init
	go func() {
		if err := init.signal(9); err != nil {
			klog.FromContext(ctx).Error(err, "Ending a container", "system", c.id)
		}
	}()
}

func (s systemCalls) systemProperties(ctx context.Context, c call) (result, error) {
	types, measure, err := hcsd.ParseQuery(c.document())
	if err != nil {
		return result{}, err
	}
	s.mu.Lock()
	sys, live, err := s.get(c)
	running := err == nil && sys.Running() == nil
	var server *process
	if running {
		server = live.Init
	}
	s.mu.Unlock()
	if err != nil {
		return result{}, err
	}
	if measure && !running {
		return result{}, hcsd.ErrInvalidState
	}

	var m hcsd.Measured
	var spent processorTime
	if measure {
		spent = server.processorTime()
		if m, err = s.measure(ctx, live); err != nil {
			return result{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if measure {
		countPrograms(&m, spent, &live.told)
	}
	return result{text: sys.Properties(types, m, now())}, nil
}

// measure returns what a container uses, and the programs that run in it.
func (s systemCalls) measure(ctx context.Context, c *container) (hcsd.Measured, error) {
	m, err := s.rt.measure(ctx, c.key)
	if err != nil {
		return m, err
	}
	pids, err := s.rt.pids(ctx, c.key)
	if err != nil {
		return m, err
	}
	for _, pid := range pids {
		if p, ok := programOf(pid); ok {
			m.Programs = append(m.Programs, p)
		}
	}
	return m, nil
}

func (s systemCalls) modifySystem(ctx context.Context, c call) (result, error) {
	s.mu.Lock()
	sys, live, err := s.get(c)
	if err == nil {
		err = sys.Running()
	}
	var doc hcsd.Container
	if err == nil {
		doc, err = sys.Modify(c.document())
	}
	if err == nil {
		err = s.save()
	}
	s.mu.Unlock()
	if err != nil {
		return result{}, err
	}
	return result{}, s.rt.update(ctx, live.key, s.o.resources(&doc))
}

func (s systemCalls) enumerate(_ context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := s.systems.Enumerate(c.document())
	return result{text: text}, err
}

func (s systemCalls) serviceProperties(_ context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := hcsd.ServiceProperties(c.document(), s.credentials)
	return result{text: text}, err
}

func (s systemCalls) modifyService(_ context.Context, c call) (result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.credentials.Modify(c.document()); err != nil {
		return result{}, err
	}
	return result{}, s.save()
}
