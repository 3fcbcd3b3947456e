package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/records"
	"porthole.dev/porthole/kubelet/volume/steps"
)

// ending is a volume of a driver that is taken away from a pod. It comes from what is on disk alone: the pod may be
// unknown.
type ending struct {
	records.Places
	records.DeviceKey
}

// EndAll takes all volumes of drivers away from a pod that has ended. One failure does not stop the others.
func (s *Volumes) EndAll(ctx context.Context, uid types.UID) error {
	list, errs := s.endings(uid)
	for _, e := range list {
		began := time.Now()
		err := s.end(ctx, e)
		if s.o.Measure != nil {
			s.o.Measure(csiName(e.Driver), "volume_unmount", time.Since(began), err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("UnmountVolume.TearDown failed for volume %q: %w", e.Handle, err))
		}
	}
	return errors.Join(errs...)
}

// endings finds the volumes of drivers that a pod has.
func (s *Volumes) endings(uid types.UID) (list []ending, errs []error) {
	add := func(path string, at func(name string, r records.Record) records.Places) {
		r, ok, err := records.Read(path)
		// Which driver has the volume is lost: what is mounted is taken away without it.
		if errors.Is(err, records.ErrBroken) {
			e := ending{Places: at(filepath.Base(filepath.Dir(path)), records.Record{})}
			err = errors.Join(s.removeTarget(e), disk.RemoveEmpty(path))
		}
		if err != nil {
			errs = append(errs, err)
		}
		if ok {
			list = append(list, ending{Places: at(filepath.Base(filepath.Dir(path)), r),
				DeviceKey: r.Key()})
		}
	}

	files, _ := filepath.Glob(filepath.Join(s.Pod(uid), "volumes", records.CSIPlugin, "*", records.FileName))
	for _, path := range files {
		add(path, func(name string, r records.Record) records.Places { return s.Files(uid, name, r.Driver, r.Handle) })
	}
	raw, _ := filepath.Glob(filepath.Join(s.Pod(uid), "plugins", records.CSIPlugin, "*", records.FileName))
	for _, path := range raw {
		add(path, func(name string, _ records.Record) records.Places { return s.Device(uid, name) })
	}

	// A raw device that upstream's kubelet published has no record of the pod, only a link.
	links, _ := filepath.Glob(filepath.Join(s.Pod(uid), "volumeDevices", records.CSIPlugin, "*"))
	for _, link := range links {
		p := s.Device(uid, filepath.Base(link))
		if _, err := os.Lstat(p.Record); errors.Is(err, fs.ErrNotExist) {
			if r, ok, err := records.Read(p.StageRecord); err == nil && ok {
				list = append(list, ending{Places: p, DeviceKey: r.Key()})
			}
		}
	}
	return list, errs
}

// end takes one volume away from a pod, and from the node if no other pod uses it.
func (s *Volumes) end(ctx context.Context, e ending) error {
	unlock, err := s.uses.Lock(ctx, e.Record)
	if err != nil {
		return err
	}
	defer unlock()
	s.devices.Load()

	r, used, err := records.Read(e.Record)
	if err != nil {
		return err
	}
	o := steps.Observed{Used: steps.Begun}
	if used {
		o.Used = r.Reached(s.o.BootID)
	}
	for _, k := range steps.ForEnd(o) {
		if k == steps.ForgetUse {
			continue // under the lock of the volume, below
		}
		if err := s.endStep(ctx, e, k); err != nil {
			return err
		}
	}
	return s.unstage(ctx, e)
}

// unstage forgets the use of a volume, and takes it away from the node if no other pod uses it.
func (s *Volumes) unstage(ctx context.Context, e ending) error {
	unshare, err := s.shared.Lock(ctx, e.DeviceKey.String())
	if err != nil {
		return err
	}
	defer unshare()
	if e.Record != "" {
		if err := s.endStep(ctx, e, steps.ForgetUse); err != nil {
			return err
		}
	}

	r, staged, err := records.Read(e.StageRecord)
	if errors.Is(err, records.ErrBroken) {
		staged, err = true, nil // and not known to be done
	}
	if err != nil {
		return err
	}
	o := steps.Observed{Others: s.devices.Others(e.DeviceKey, e.Record)}
	if staged {
		o.Staged = r.Reached(s.o.BootID)
	}
	plan := steps.ForUnstage(o)
	klog.FromContext(ctx).V(2).
		Info("Plan of a volume's end", "volume", e.DeviceKey.String(), "observed", o.String(), "plan", plan.String())
	for _, k := range plan {
		if err := s.endStep(ctx, e, k); err != nil {
			return err
		}
	}
	if s.o.NodeChanged != nil && !o.Others {
		s.o.NodeChanged() // the volume may be detached now
	}
	return nil
}

// endStep carries out one step of taking a volume away. Each can be repeated.
func (s *Volumes) endStep(ctx context.Context, e ending, k steps.Kind) error {
	if s.Failpoint != nil {
		if err := s.Failpoint(k); err != nil {
			return err
		}
	}

	switch k {
	case steps.Unpublish:
		d, err := s.registered(e.DeviceKey.Driver)
		if err != nil {
			return err
		}
		return d.Unpublish(ctx, e.Handle, e.Target)
	case steps.RemoveTarget:
		return s.removeTarget(e)
	case steps.ForgetUse:
		if err := disk.RemoveEmpty(e.Record); err != nil {
			return fmt.Errorf("removing what is known of a volume: %w", err)
		}
		s.devices.Forget(e.DeviceKey, e.Record)
		return nil

	case steps.Unstage:
		return s.unstageVolume(ctx, e)
	case steps.RemoveStaging:
		if err := disk.UnmountAll(e.Staging); err != nil {
			return err
		}
		return disk.RemoveFolder(e.Staging)
	case steps.ForgetStage:
		if err := disk.RemoveEmpty(e.StageRecord); err != nil {
			return fmt.Errorf("removing what is known of a staged volume: %w", err)
		}
		s.devices.Forget(e.DeviceKey, e.StageRecord)
		_ = os.Remove(filepath.Dir(e.StageRecord)) // what is not empty stays
		return nil
	}
	return fmt.Errorf("%s is not a step of taking a volume away", k)
}

// unstageVolume calls the driver, if it stages volumes at all: upstream's kubelet writes the record also for those
// that do not.
func (s *Volumes) unstageVolume(ctx context.Context, e ending) error {
	d, err := s.registered(e.DeviceKey.Driver)
	if err != nil {
		return err
	}
	can, err := d.Abilities(ctx)
	if err != nil || !can.Stage {
		return err
	}
	return d.Unstage(ctx, e.Handle, e.Staging)
}

// registered returns the driver that is registered now, without waiting for one.
func (s *Volumes) registered(driver string) (*csi.Driver, error) {
	if s.o.Drivers == nil {
		return nil, fmt.Errorf("driver name %s %w", driver, csi.ErrNotRegistered)
	}
	return s.o.Drivers.Driver(driver)
}

// removeTarget removes what a driver left where the volume was. A driver that lost its memory leaves the mount, too.
// Only an empty folder, a file or a link is removed: what is in a volume is never touched.
func (s *Volumes) removeTarget(e ending) error {
	if err := disk.UnmountAll(e.Target); err != nil {
		return err
	}
	if e.Link != "" {
		if err := disk.RemoveEmpty(e.Link); err != nil {
			return fmt.Errorf("removing the link to a device: %w", err)
		}
		if err := disk.RemoveEmpty(e.Target); err != nil {
			return fmt.Errorf("removing the place of a device: %w", err)
		}
		_ = os.Remove(filepath.Dir(e.Target)) // other pods' devices may be in it
		return nil
	}
	return disk.RemoveFolder(e.Target)
}
