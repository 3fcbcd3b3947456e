package evict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signals, by upstream's names (pkg/kubelet/eviction/api/types.go).
const (
	MemoryAvailable       = "memory.available"
	AllocatableMemory     = "allocatableMemory.available"
	NodeFsAvailable       = "nodefs.available"
	NodeFsInodesFree      = "nodefs.inodesFree"
	ImageFsAvailable      = "imagefs.available"
	ImageFsInodesFree     = "imagefs.inodesFree"
	ContainerFsAvailable  = "containerfs.available"
	ContainerFsInodesFree = "containerfs.inodesFree"
	PIDAvailable          = "pid.available"
)

// Resources that only have a name inside the kubelet, as upstream calls them.
const (
	inodes v1.ResourceName = "inodes"
	pids   v1.ResourceName = "pids"
)

// signals has the resource of each signal, and the condition of the node that it leads to.
var signals = map[string]struct {
	resource  v1.ResourceName
	condition v1.NodeConditionType
}{
	MemoryAvailable:       {v1.ResourceMemory, v1.NodeMemoryPressure},
	AllocatableMemory:     {v1.ResourceMemory, v1.NodeMemoryPressure},
	NodeFsAvailable:       {v1.ResourceEphemeralStorage, v1.NodeDiskPressure},
	NodeFsInodesFree:      {inodes, v1.NodeDiskPressure},
	ImageFsAvailable:      {v1.ResourceEphemeralStorage, v1.NodeDiskPressure},
	ImageFsInodesFree:     {inodes, v1.NodeDiskPressure},
	ContainerFsAvailable:  {v1.ResourceEphemeralStorage, v1.NodeDiskPressure},
	ContainerFsInodesFree: {inodes, v1.NodeDiskPressure},
	PIDAvailable:          {pids, v1.NodePIDPressure},
}

// Threshold is the least that must be left of something on the node.
type Threshold struct {
	Signal string
	Least  Amount
	// Reclaim is how much more than Least must be left before the node stops to reclaim.
	Reclaim Amount
	// Grace is how long less may be left before a pod has to end; zero for a hard threshold.
	Grace time.Duration
}

// Amount is a number of bytes or objects, or if that is zero a share of the whole in percent.
type Amount struct {
	Number  int64
	Percent float64
}

// ParseAmount parses a quantity ("100Mi") or a share ("10%").
func ParseAmount(text string) (Amount, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return Amount{}, fmt.Errorf("%q is not a percentage from 0%% to 100%%", text)
		}
		return Amount{Percent: percent}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return Amount{}, fmt.Errorf("%q is neither a quantity nor a percentage", text)
	}
	return Amount{Number: q.Value()}, nil
}

// never reports whether the amount is one of those with which a threshold is switched off: 0 % and 100 %, as with
// upstream.
func (a Amount) never() bool { return a.Number == 0 && (a.Percent == 0 || a.Percent == 100) }

// of returns the amount of a whole.
func (a Amount) of(whole uint64) uint64 {
	if a.Number != 0 {
		return uint64(a.Number)
	}
	return uint64(float64(whole) * a.Percent / 100)
}

// Settings are the eviction settings of a configuration, by signal.
type Settings struct {
	Hard, Soft, SoftGrace, MinimumReclaim map[string]string
	// Allocatable adds a threshold for the memory of all pods together, with the values of the hard one for memory. The
	// configuration asks for it by enforceNodeAllocatable: [pods].
	Allocatable bool
}

// Parse returns the thresholds of the settings, hard ones first, each list by signal. Thresholds of 0 % and 100 % are
// left out, and so are those for containerfs.*, which follow from the others (see derived). It returns an error for a
// value that cannot be parsed.
func Parse(s Settings) ([]Threshold, error) {
	var out []Threshold
	add := func(signal, text string, grace time.Duration) error {
		if _, known := signals[signal]; !known {
			return fmt.Errorf("unsupported eviction signal %s", signal)
		}
		least, err := ParseAmount(text)
		if err != nil {
			return fmt.Errorf("eviction threshold %s: %w", signal, err)
		}
		t := Threshold{Signal: signal, Least: least, Grace: grace}
		if text, ok := s.MinimumReclaim[signal]; ok {
			if t.Reclaim, err = ParseAmount(text); err != nil {
				return fmt.Errorf("evictionMinimumReclaim %s: %w", signal, err)
			}
		}
		if !least.never() && !strings.HasPrefix(signal, "containerfs.") {
			out = append(out, t)
		}
		return nil
	}

	for _, signal := range sortedKeys(s.Hard) {
		if err := add(signal, s.Hard[signal], 0); err != nil {
			return nil, err
		}
	}
	for _, signal := range sortedKeys(s.Soft) {
		grace, err := time.ParseDuration(s.SoftGrace[signal])
		if err != nil || grace < 0 {
			return nil, fmt.Errorf("evictionSoftGracePeriod of %s: %q is not a duration", signal, s.SoftGrace[signal])
		}
		if err := add(signal, s.Soft[signal], grace); err != nil {
			return nil, err
		}
	}

	if i := slices.IndexFunc(out,
		func(t Threshold) bool { return t.Signal == MemoryAvailable && t.Grace == 0 }); i >= 0 && s.Allocatable {
		pods := out[i]
		pods.Signal = AllocatableMemory
		out = append(out, pods)
	}
	return out, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// derived returns the thresholds with those for containerfs.*, which are the ones of the file system that containers'
// layers are on: imagefs if that is apart and has them, else nodefs. What a configuration says about containerfs has
// no effect, as with upstream.
func derived(list []Threshold, o *Observed) []Threshold {
	from := "nodefs."
	if o.ImagesApart && !o.LayersApart {
		from = "imagefs."
	}
	out := slices.Clone(list)
	for _, t := range list {
		if what, ok := strings.CutPrefix(t.Signal, from); ok {
			t.Signal = "containerfs." + what
			out = append(out, t)
		}
	}
	return out
}

// met reports whether enough is left. With reclaimed the threshold is met only when its minimum reclaim is left
// besides.
func (t *Threshold) met(l Level, reclaimed bool) bool {
	least := t.Least.of(l.Whole)
	if reclaimed {
		least += t.Reclaim.of(l.Whole)
	}
	return l.Left >= least
}
