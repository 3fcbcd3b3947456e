package storage

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// measure asks the driver for the use of a volume.
func (s *Volumes) measure(ctx context.Context, u use) error {
	if s.o.Drivers == nil {
		return nil
	}
	d, err := s.o.Drivers.Driver(u.DeviceKey.Driver)
	if err != nil {
		return err
	}
	can, err := d.Abilities(ctx)
	if err != nil || !can.Stats {
		return err
	}
	at := csi.Target{Path: u.Target}
	if can.Stage && u.inline == nil {
		at.Staging = u.Staging
	}
	stats, err := d.Stats(ctx, u.Handle, at)
	if err != nil {
		return err
	}
	if !can.Condition {
		stats.Condition = nil
	}

	// An event is sent when the condition becomes abnormal, not at each look.
	unwell := stats.Condition != nil && stats.Condition.Abnormal
	tell := false
	s.known.update(u.pod.UID, u.volume, func(f *found) {
		tell = unwell && !f.unwell
		f.stats, f.unwell = &stats, unwell
	})
	if tell && s.o.Event != nil {
		s.o.Event(u.pod, v1.EventTypeWarning, "VolumeConditionAbnormal",
			fmt.Sprintf("Volume %s: %s", u.volume, stats.Condition.Message))
	}
	return nil
}

// Usage returns what was last measured of a volume, and measures it again in the background if that is old: a driver
// may take long.
func (s *Volumes) Usage(p *v1.Pod, volume string) (measure.Usage, bool) {
	var f found
	ok, due := false, false
	// One measurement of a volume is under way at a time.
	s.known.update(p.UID, volume, func(k *found) {
		if ok, due = true, !k.asking && s.o.Now().Sub(k.taken) > statsAge; due {
			k.asking, k.taken = true, s.o.Now()
		}
		f = *k
	})
	if _, driven := f.backing.key(p); !ok || !driven {
		return measure.Usage{}, false
	}

	if due {
		u := s.useOf(p, volume, f.backing)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), csi.CallTimeout)
			defer cancel()
			if err := s.measure(ctx, u); err != nil {
				klog.Background().V(2).Info("Measuring a volume failed", "pod", klog.KObj(p), "volume", volume, "cause",
					err.Error())
			}
			s.known.update(p.UID, volume, func(f *found) { f.asking = false })
		}()
	}
	if f.stats == nil {
		return measure.Usage{}, false
	}
	out := measure.Usage{UsedBytes: uint64(f.stats.UsedBytes), UsedInodes: uint64(f.stats.UsedInodes),
		CapacityBytes:  uint64(f.stats.CapacityBytes),
		AvailableBytes: uint64(f.stats.AvailableBytes), Inodes: uint64(f.stats.CapacityInodes),
		InodesFree: uint64(f.stats.AvailableInodes)}
	if c := f.stats.Condition; c != nil {
		out.Abnormal = &c.Abnormal
	}
	if f.claim != nil {
		out.Claim = f.claim.Name
	}
	return out, true
}
