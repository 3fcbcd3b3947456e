package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/keylock"
	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/paths"
	"porthole.dev/porthole/kubelet/volume/records"
	"porthole.dev/porthole/kubelet/volume/steps"
)

// DriverSource knows the storage drivers of the node; csi.Registry implements it.
type DriverSource interface {
	// Driver returns an error for which errors.Is(err, csi.ErrNotRegistered) is true if the driver is not on the node.
	Driver(name string) (*csi.Driver, error)
	// Await is Driver for one that may come soon: it waits at most for wait.
	Await(ctx context.Context, name string, wait time.Duration) (*csi.Driver, error)
	// Refresh asks a driver again how many volumes the node may have.
	Refresh(ctx context.Context, name string) error
}

// Times of volumes of drivers.
const (
	// driverWait is how long a pod waits for its driver before an event says that it is not there. After a boot all
	// pods start at once, that of the driver among them.
	driverWait = 3 * time.Second
	// attachWait is how long one attempt waits for the attachment: upstream's pods wait 2 min 3 s for their volumes.
	attachWait = 2*time.Minute + 3*time.Second
	// attachPoll is how often an attachment is read while nothing is heard of it.
	attachPoll = 5 * time.Second
	// statsAge is how old the measures of a volume may be (upstream's volumeStatsAggPeriod).
	statsAge = time.Minute
)

// storage are the volumes that come from claims and drivers. It is safe for concurrent use.
type storage struct {
	records.Folder
	o       *Options
	devices records.Devices
	node    nodeView
	// uses are locks by pod and volume, shared ones by volume of a driver. The first is taken before the second.
	uses, shared keylock.Set

	mu    sync.Mutex
	found map[types.UID]map[string]found

	// failpoint is called before each step; an error of it ends the work there. Only tests set it.
	failpoint func(steps.Kind) error
}

// found is what is known of one volume of a pod that this process prepared.
type found struct {
	backing
	stats   *csi.Stats // nil until it was measured
	taken   time.Time  // of the last attempt to measure
	asking  bool
	unwell  bool // the last event said that the volume is not well
	refused int64
}

func newStorage(o *Options) *storage {
	l := records.Folder{Root: o.RootDir}
	return &storage{Folder: l, o: o, devices: records.Devices{Folder: l}, found: map[types.UID]map[string]found{}}
}

// known reports whether this process has found out what the volume is.
func (s *storage) known(uid types.UID, volume string) bool {
	_, ok := s.get(uid, volume)
	return ok
}

func (s *storage) get(uid types.UID, volume string) (found, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.found[uid][volume]
	return f, ok
}

// update changes what is known of a volume. It does nothing for a pod that was forgotten meanwhile.
func (s *storage) update(uid types.UID, volume string, change func(*found)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.found[uid][volume]; ok {
		change(&f)
		s.found[uid][volume] = f
	}
}

func (s *storage) remember(uid types.UID, volume string, b backing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[uid] == nil {
		s.found[uid] = map[string]found{}
	}
	f := s.found[uid][volume]
	f.backing = b
	s.found[uid][volume] = f
}

func (s *storage) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.found, uid)
}

// use is one volume of a driver as one pod uses it.
type use struct {
	records.Places
	records.DeviceKey
	pod    *v1.Pod
	volume string // its name in the pod
	backing
}

func (s *storage) useOf(p *v1.Pod, volume string, b backing) use {
	key, _ := b.key(p)
	u := use{DeviceKey: key, pod: p, volume: volume, backing: b}
	if b.block() {
		u.Places = s.Device(p.UID, b.name)
	} else {
		u.Places = s.Files(p.UID, b.name, key.Driver, key.Handle)
	}
	return u
}

// path returns where on the node a volume is.
func (s *storage) path(p *v1.Pod, volume string) (string, error) {
	f, ok := s.get(p.UID, volume)
	switch {
	case !ok:
		return "", errors.New("it is not known yet what the volume is")
	case f.inline != nil || f.csi() != nil:
		return s.useOf(p, volume, f.backing).Target, nil
	case f.pv.Spec.HostPath != nil:
		return paths.CleanHostPath(f.pv.Spec.HostPath.Path, disk.OnWindows)
	case f.pv.Spec.Local != nil && f.block():
		return f.pv.Spec.Local.Path, nil
	case f.pv.Spec.Local != nil:
		return filepath.Join(s.Pod(p.UID), "volumes", records.LocalPlugin, records.Escape(f.name)), nil
	}
	return "", unsupportedPV(f.pv)
}

// prepare makes a volume available to a pod, whatever backs it.
func (s *storage) prepare(ctx context.Context, j job) error {
	b, err := s.resolve(ctx, j.pod, j.volume)
	if err != nil {
		return err
	}
	s.remember(j.pod.UID, j.volume.Name, b)

	switch {
	case b.inline != nil || b.csi() != nil:
		return s.setUp(ctx, s.useOf(j.pod, j.volume.Name, b))
	case b.pv.Spec.HostPath != nil:
		return hostPathKind{}.prepare(ctx, hostPathOf(j, b))
	case b.pv.Spec.Local != nil:
		return s.prepareLocal(j, b)
	}
	return unsupportedPV(b.pv)
}

// hostPathOf returns the job of the host path that a volume of a claim is.
func hostPathOf(j job, b backing) job {
	j.volume = &v1.Volume{Name: j.volume.Name, VolumeSource: v1.VolumeSource{HostPath: b.pv.Spec.HostPath}}
	return j
}

// prepareLocal makes a folder of the node available to the pod, at a path of the pod's own.
func (s *storage) prepareLocal(j job, b backing) error {
	source := b.pv.Spec.Local.Path
	if _, err := paths.CleanHostPath(source, disk.OnWindows); err != nil {
		return fmt.Errorf("local PersistentVolume %s: %w", b.pv.Name, err)
	}
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("path %q of local PersistentVolume %s does not exist", source, b.pv.Name)
	}
	if b.block() {
		if info.Mode()&os.ModeDevice == 0 {
			return fmt.Errorf("path %q of local PersistentVolume %s is not a block device", source, b.pv.Name)
		}
		return nil
	}
	if !info.IsDir() {
		return fmt.Errorf(
			"path %q of local PersistentVolume %s is not a folder: a disk must have been formatted and mounted", source,
			b.pv.Name)
	}

	at := filepath.Join(s.Pod(j.pod.UID), "volumes", records.LocalPlugin, records.Escape(b.name))
	if err := disk.BindFolder(source, at, b.readOnly); err != nil {
		return err
	}
	if group := j.group(); group != nil && !b.readOnly {
		return disk.SetGroup(at, *group, j.pod.Spec.SecurityContext.FSGroupChangePolicy)
	}
	return nil
}

// observe reads what the node has of a volume.
func (s *storage) observe(u use) (o steps.Observed, own, staged records.Record, err error) {
	own, used, err := records.Read(u.Record)
	if err != nil && !errors.Is(err, records.ErrBroken) { // a broken one is written again
		return o, own, staged, err
	}
	staged, onNode, err := records.Read(u.StageRecord)
	if err != nil && !errors.Is(err, records.ErrBroken) {
		return o, own, staged, err
	}

	if used {
		o.Used = own.Reached(s.o.BootID)
		o.Size = own.Bytes()
	}
	if onNode {
		o.Staged = staged.Reached(s.o.BootID)
	}
	if o.There, err = disk.Published(u.Target); err != nil {
		return o, own, staged, err
	}
	o.Others = s.devices.Others(u.DeviceKey, u.Record)
	return o, own, staged, nil
}

// sweep unstages volumes that no pod uses: a kubelet was killed before it could.
func (s *storage) sweep(ctx context.Context) {
	for _, d := range s.devices.Orphans() {
		for path, staging := range d.Staged {
			e := ending{DeviceKey: d.DeviceKey, Places: records.Places{StageRecord: path, Staging: staging}}
			if err := s.unstage(ctx, e); err != nil {
				klog.FromContext(ctx).Error(err, "Unstaging a volume that no pod uses failed", "volume", d.String())
			}
		}
	}
}
