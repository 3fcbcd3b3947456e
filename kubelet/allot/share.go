package allot

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/wakeup"
)

// Share keeps what all pods together may have, and the shares of their classes, which change with the pods. Make it
// with NewShare.
type Share struct {
	cgroups sharer
	pods    func() []*v1.Pod
	event   func(eventType, reason, message string)
	changed wakeup.Signal

	told bool // the event that the limits stand was sent
}

// NewShare returns a Share of the cgroups above the pods'. pods returns those that have not ended; nil as long as they
// are not known. event records an event about the node.
func NewShare(cgroups sharer, pods func() []*v1.Pod, event func(eventType, reason, message string)) *Share {
	return &Share{cgroups: cgroups, pods: pods, event: event, changed: wakeup.New()}
}

// Changed says that there may be other pods. It does not block.
func (s *Share) Changed() { s.changed.Wake() }

// sharePeriod is how often shares are set again: somebody may have changed them, and a limit that was less than what
// is in use may fit now.
const sharePeriod = time.Minute

// Begin makes the cgroups before the first pod. What fails is tried again by Run.
func (s *Share) Begin(ctx context.Context) { _ = s.set(ctx) }

// Run sets shares until ctx ends. Begin comes before it.
func (s *Share) Run(ctx context.Context) {
	loop.Loop{Pass: s.set, Wake: s.changed, Period: sharePeriod, Later: true}.Run(ctx)
}

// set sends upstream's events. Its error was logged.
func (s *Share) set(ctx context.Context) error {
	err := s.cgroups.Share(s.pods())
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "What all pods may have together is not set")
		s.event(v1.EventTypeWarning, "FailedNodeAllocatableEnforcement",
			"Failed to update Node Allocatable Limits: "+err.Error())
	case !s.told:
		s.told = true
		s.event(v1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	}
	return err
}
