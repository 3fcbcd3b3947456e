package kubelet

import (
	"context"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
)

// Threshold is the least that must be left of something on the node.
type Threshold struct {
	// Signal is upstream's name: memory.available, nodefs.available, nodefs.inodesFree, imagefs.available,
	// imagefs.inodesFree, pid.available.
	Signal string
	// Least is bytes or a number; where it is zero, Percent of what there is in all counts.
	Least   int64
	Percent float64
	// Grace is how long less may be left before it matters; zero for a hard threshold.
	Grace time.Duration
}

// level is what is left of something, and how much there is in all.
type level struct{ left, whole uint64 }

// pressureOf is the condition that a signal is about; empty for one that is not known.
func pressureOf(signal string) v1.NodeConditionType {
	what, _, _ := strings.Cut(signal, ".")
	return map[string]v1.NodeConditionType{"memory": v1.NodeMemoryPressure, "nodefs": v1.NodeDiskPressure, "imagefs": v1.NodeDiskPressure,
		"containerfs": v1.NodeDiskPressure, "pid": v1.NodePIDPressure}[what]
}

// pressures turns levels into conditions. It is for one goroutine.
type pressures struct {
	thresholds []Threshold
	// transition is how long a condition stays after its last reason is gone, so that it does not flutter.
	transition time.Duration

	since map[int]time.Time                  // by index of a threshold: since when too little is left
	last  map[v1.NodeConditionType]time.Time // when a reason for the condition was last seen
}

func newPressures(thresholds []Threshold, transition time.Duration) *pressures {
	return &pressures{thresholds: thresholds, transition: transition, since: map[int]time.Time{}, last: map[v1.NodeConditionType]time.Time{}}
}

// look takes the levels of now and returns the conditions that are true. A signal without a level says nothing: what was
// seen of it before counts for as long as it would anyway.
func (p *pressures) look(levels map[string]level, now time.Time) map[v1.NodeConditionType]bool {
	for i, t := range p.thresholds {
		l, known := levels[t.Signal]
		if !known || l.whole == 0 {
			continue
		}
		least := float64(t.Least)
		if t.Least == 0 {
			least = t.Percent / 100 * float64(l.whole)
		}
		if float64(l.left) >= least {
			delete(p.since, i)
			continue
		}
		if _, already := p.since[i]; !already {
			p.since[i] = now
		}
		if now.Sub(p.since[i]) >= t.Grace {
			p.last[pressureOf(t.Signal)] = now
		}
	}
	out := map[v1.NodeConditionType]bool{}
	for condition, at := range p.last {
		if now.Sub(at) < p.transition || now.Equal(at) {
			out[condition] = true
		} else {
			delete(p.last, condition)
		}
	}
	return out
}

// levelsOf are the signals that a reading of the node's own file system, and one of the images', tell.
func levelsOf(node platform.Usage, images platform.Disk, windows bool) map[string]level {
	out := map[string]level{
		"memory.available":   {node.MemoryTotal - min(node.MemoryTotal, node.MemoryWorkingSet), node.MemoryTotal},
		"nodefs.available":   {node.DiskAvailable, node.DiskTotal},
		"nodefs.inodesFree":  {node.InodesFree, node.Inodes},
		"imagefs.available":  {images.DiskAvailable, images.DiskTotal},
		"imagefs.inodesFree": {images.InodesFree, images.Inodes},
	}
	if windows { // where memory that was promised counts, used or not
		out["memory.available"] = level{node.CommitLimit - min(node.CommitLimit, node.CommitTotal), node.CommitLimit}
	} else {
		out["pid.available"] = level{node.MaxTasks - min(node.MaxTasks, node.Tasks), node.MaxTasks}
	}
	return out
}

// pressurePeriod is how often the levels are read. Upstream's.
const pressurePeriod = 10 * time.Second

// watchPressure keeps the node's pressure conditions right.
func (k *Kubelet) watchPressure(ctx context.Context) {
	if len(k.o.Thresholds) == 0 || k.o.Usage == nil {
		return
	}
	p := newPressures(k.o.Thresholds, k.o.PressureTransition)
	images := "" // where the runtime keeps them: it is asked until it says so, and not again
	tick := time.NewTicker(pressurePeriod)
	defer tick.Stop()
	for {
		if images == "" && k.o.ImageGC != nil {
			images, _ = k.o.ImageGC.Path(ctx) // a runtime that does not answer yet is asked again
		}
		if levels, err := k.levels(images); err != nil {
			klog.FromContext(ctx).Error(err, "Reading what is left on the node failed")
		} else if now := p.look(levels, time.Now()); !maps.Equal(now, *k.pressed.Load()) {
			k.pressed.Store(&now)
			k.nodeSoon()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// levels reads what is left; images is the folder that the runtime keeps images in, or empty.
func (k *Kubelet) levels(images string) (map[string]level, error) {
	node, err := k.o.Usage(k.o.RootDir)
	if err != nil {
		return nil, err
	}
	theirs := node.Disk
	if images != "" {
		if other, err := platform.ReadDisk(images); err == nil { // a runtime elsewhere names a path that there is not here
			theirs = other
		}
	}
	return levelsOf(node, theirs, k.o.Windows), nil
}
