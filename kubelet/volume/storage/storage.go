package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	"porthole.dev/porthole/kubelet/volume/token"
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

// Options configure New. Only RootDir is required.
type Options struct {
	RootDir  string // the kubelet's root folder
	NodeName string
	BootID   string // of this boot of the machine
	Claims   ClaimAPI
	Drivers  DriverSource
	// Secrets reads those that drivers are called with.
	Secrets Secrets
	// Tokens are what drivers that ask for tokens get.
	Tokens token.Asker
	// NodeChanged is called when InUse has changed. It does not block.
	NodeChanged func()
	// Event records an event about a pod.
	Event func(pod *v1.Pod, eventType, reason, message string)
	// Measure counts what was done about one volume.
	Measure func(plugin, operation string, took time.Duration, err error)
	Now     func() time.Time
}

// Secrets reads Secrets.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Volumes are the volumes that come from claims and drivers. It is safe for concurrent use.
type Volumes struct {
	records.Folder
	o       Options
	devices records.Devices
	node    nodeView
	// uses are locks by pod and volume, shared ones by volume of a driver. The first is taken before the second.
	uses, shared keylock.Set

	known knownVolumes

	// Failpoint is called before each step; an error of it ends the work there. Only tests set it.
	Failpoint func(steps.Kind) error
}

// New returns the volumes of a node. It does not touch the disk.
func New(o Options) *Volumes {
	l := records.Folder{Root: o.RootDir}
	return &Volumes{Folder: l, o: o, devices: records.Devices{Folder: l}}
}

// use is one volume of a driver as one pod uses it.
type use struct {
	records.Places
	records.DeviceKey
	pod    *v1.Pod
	volume string // its name in the pod
	backing
}

// useOf has the paths of the use: block devices and file systems have different ones.
func (s *Volumes) useOf(p *v1.Pod, volume string, b backing) use {
	key, _ := b.key(p)
	u := use{DeviceKey: key, pod: p, volume: volume, backing: b}
	if b.block() {
		u.Places = s.Device(p.UID, b.name)
	} else {
		u.Places = s.Files(p.UID, b.name, key.Driver, key.Handle)
	}
	return u
}

// Path returns where on the node a volume is.
func (s *Volumes) Path(p *v1.Pod, volume string) (string, error) {
	f, ok := s.known.get(p.UID, volume)
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

// Prepare makes a volume available to a pod, whatever backs it. If that is a path of the node, it returns it, and the
// caller prepares it as it does those that pods name.
func (s *Volumes) Prepare(ctx context.Context, p *v1.Pod, v *v1.Volume) (*v1.HostPathVolumeSource, error) {
	b, err := s.resolve(ctx, p, v)
	if err != nil {
		return nil, err
	}
	s.known.remember(p.UID, v.Name, b)

	switch {
	case b.inline != nil || b.csi() != nil:
		return nil, s.setUp(ctx, s.useOf(p, v.Name, b))
	case b.pv.Spec.HostPath != nil:
		return b.pv.Spec.HostPath, nil
	case b.pv.Spec.Local != nil:
		return nil, s.prepareLocal(p, b)
	}
	return nil, unsupportedPV(b.pv)
}

// HostPath returns the path of the node that a volume is, nil if it is another one.
func (s *Volumes) HostPath(uid types.UID, volume string) *v1.HostPathVolumeSource {
	f, ok := s.known.get(uid, volume)
	if !ok || f.pv == nil {
		return nil
	}
	return f.pv.Spec.HostPath
}

// IsReadOnly reports whether a volume is one that no container may write to.
func (s *Volumes) IsReadOnly(uid types.UID, volume string) bool {
	f, _ := s.known.get(uid, volume)
	return f.readOnly
}

// prepareLocal makes a folder of the node available to the pod, at a path of the pod's own.
func (s *Volumes) prepareLocal(p *v1.Pod, b backing) error {
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

	at := filepath.Join(s.Pod(p.UID), "volumes", records.LocalPlugin, records.Escape(b.name))
	if err := disk.BindFolder(source, at, b.readOnly); err != nil {
		return err
	}
	if sc := p.Spec.SecurityContext; sc != nil && sc.FSGroup != nil && !b.readOnly {
		return disk.SetGroup(at, *sc.FSGroup, sc.FSGroupChangePolicy)
	}
	return nil
}

// observe reads what the node has of a volume.
func (s *Volumes) observe(u use) (o steps.Observed, own, staged records.Record, err error) {
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

// Sweep unstages volumes that no pod uses: a kubelet was killed before it could.
func (s *Volumes) Sweep(ctx context.Context) {
	for _, d := range s.devices.Orphans() {
		for path, staging := range d.Staged {
			e := ending{DeviceKey: d.DeviceKey, Places: records.Places{StageRecord: path, Staging: staging}}
			if err := s.unstage(ctx, e); err != nil {
				klog.FromContext(ctx).Error(err, "Unstaging a volume that no pod uses failed", "volume", d.String())
			}
		}
	}
}

// csiName is upstream's name of the type of a driver's volumes.
func csiName(driver string) string { return "kubernetes.io/csi:" + driver }

// PluginOf returns upstream's name of the type of a volume which a claim, or a driver, gives; N/A if it is not known.
func (s *Volumes) PluginOf(pod *v1.Pod, v *v1.Volume) string {
	if v.CSI != nil {
		return csiName(v.CSI.Driver)
	}
	f, ok := s.known.get(pod.UID, v.Name)
	switch {
	case !ok || f.pv == nil:
		return "N/A"
	case f.csi() != nil:
		return csiName(f.csi().Driver)
	case f.pv.Spec.HostPath != nil:
		return "kubernetes.io/host-path"
	case f.pv.Spec.Local != nil:
		return "kubernetes.io/local-volume"
	}
	return "N/A"
}

// gidAnnotation of a PersistentVolume is a group that may use its files.
const gidAnnotation = "pv.beta.kubernetes.io/gid"

// Groups lists the groups that the pod's volumes name and its spec does not.
func (s *Volumes) Groups(p *v1.Pod) []int64 {
	var out []int64
	for i := range p.Spec.Volumes {
		f, ok := s.known.get(p.UID, p.Spec.Volumes[i].Name)
		if !ok || f.pv == nil {
			continue
		}
		gid, err := strconv.ParseInt(f.pv.Annotations[gidAnnotation], 10, 64)
		switch sc := p.Spec.SecurityContext; {
		case err != nil, slices.Contains(out, gid): // as with upstream, what is no number counts as none
		case sc == nil || !slices.Contains(sc.SupplementalGroups, gid):
			out = append(out, gid)
		}
	}
	return out
}

// Forget drops what is known of the volumes of a pod.
func (s *Volumes) Forget(uid types.UID) { s.known.forget(uid) }

// ObserveNode takes a version of this node's object. It does not block.
func (s *Volumes) ObserveNode(n *v1.Node) { s.node.observe(n) }

// InUse lists what the node's status says is in use: volumes that must not be detached.
func (s *Volumes) InUse() []v1.UniqueVolumeName { return s.devices.InUse() }
