package nodestatus

import (
	"context"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
)

// level is how much is left of something, and how much there is in all. whole is 0 where the machine does not count it.
type level struct{ left, whole uint64 }

// pressureOf returns the condition that a signal is about, empty for an unknown signal.
func pressureOf(signal string) v1.NodeConditionType {
	what, _, _ := strings.Cut(signal, ".")
	return map[string]v1.NodeConditionType{"memory": v1.NodeMemoryPressure, "nodefs": v1.NodeDiskPressure, "imagefs": v1.NodeDiskPressure,
		"containerfs": v1.NodeDiskPressure, "pid": v1.NodePIDPressure}[what]
}

// pressures turns levels into conditions. It is not safe for concurrent use.
type pressures struct {
	thresholds []Threshold
	// transition is how long a condition stays true after its last threshold was met again, so that it does not flap.
	transition time.Duration

	since map[int]time.Time                  // by index of a threshold: since when too little is left
	last  map[v1.NodeConditionType]time.Time // when a threshold of the condition was last seen unmet
}

func newPressures(thresholds []Threshold, transition time.Duration) *pressures {
	return &pressures{thresholds: thresholds, transition: transition, since: map[int]time.Time{}, last: map[v1.NodeConditionType]time.Time{}}
}

// update takes the levels of now and returns the conditions that are true. A signal without a level is unknown: a
// condition that it caused earlier stays true for the transition time, no longer.
func (p *pressures) update(levels map[string]level, now time.Time) map[v1.NodeConditionType]bool {
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

// levelsOf returns the level of each signal. node is a reading of the machine and the node's own file system, images
// one of the file system that images are on.
func levelsOf(node platform.Usage, images platform.Disk) map[string]level {
	memory := level{node.MemoryTotal - min(node.MemoryTotal, node.MemoryWorkingSet), node.MemoryTotal}
	if node.CommitLimit > 0 { // Windows: memory that was promised counts, used or not
		memory = level{node.CommitLimit - min(node.CommitLimit, node.CommitTotal), node.CommitLimit}
	}
	return map[string]level{
		"memory.available":   memory,
		"nodefs.available":   {node.DiskAvailable, node.DiskTotal},
		"nodefs.inodesFree":  {node.InodesFree, node.Inodes},
		"imagefs.available":  {images.DiskAvailable, images.DiskTotal},
		"imagefs.inodesFree": {images.InodesFree, images.Inodes},
		"pid.available":      {node.MaxTasks - min(node.MaxTasks, node.Tasks), node.MaxTasks}, // Windows has no maximum
	}
}

// pressurePeriod is how often the levels are read, as upstream has it.
const pressurePeriod = 10 * time.Second

// WatchPressure keeps the node's pressure conditions right until ctx ends. It returns at once if there is nothing to
// watch.
func (n *Node) WatchPressure(ctx context.Context) {
	if len(n.o.Pressure.Thresholds) == 0 || n.o.Pressure.Usage == nil {
		return
	}
	p := newPressures(n.o.Pressure.Thresholds, n.o.Pressure.Transition)
	images := "" // the folder of the images: the runtime is asked until it answers once

	tick := time.NewTicker(pressurePeriod)
	defer tick.Stop()
	for {
		if images == "" && n.links.ImageFolder != nil {
			images, _ = n.links.ImageFolder(ctx) // a runtime that does not answer yet is asked again
		}
		if levels, err := n.levels(images); err != nil {
			klog.FromContext(ctx).Error(err, "Reading what is left on the node failed")
		} else if now := p.update(levels, time.Now()); !maps.Equal(now, *n.pressed.Load()) {
			n.pressed.Store(&now)
			n.ReportSoon()
		}

		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// levels reads what is left. images is the folder that the runtime keeps images in; if it is empty, or on another
// machine, the node's own file system stands in for it.
func (n *Node) levels(images string) (map[string]level, error) {
	node, err := n.o.Pressure.Usage(n.o.Pressure.Dir)
	if err != nil {
		return nil, err
	}
	disk := node.Disk
	if images != "" {
		if other, err := platform.ReadDisk(images); err == nil {
			disk = other
		}
	}
	return levelsOf(node, disk), nil
}
