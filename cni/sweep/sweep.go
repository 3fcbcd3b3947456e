// Package sweep frees what sandboxes of the past still hold: endpoints in HNS and addresses of the node's range. A
// container runtime calls DEL when it removes a sandbox. If its state is lost, or the sandbox was removed while HNS
// was away for good, nobody does, and the range runs out after some months. containerd does not call GC.
//
// The node's route agent sweeps, not the kubelet: it made the network and the configuration, so that it knows both,
// and it is where HNS is spoken to already; the kubelet starts no program on Windows. It asks the runtime itself (CRI)
// what it knows.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
)

// Grace is how long a sandbox has to be unknown to the runtime before its network is freed. containerd lists a sandbox
// only when its network is made (internal/cri/server/sandbox_run.go), which takes a CNI call's deadline of 90 s at
// most.
const Grace = 5 * time.Minute

// Sweeper remembers since when sandboxes are unknown. It is not safe for concurrent use.
type Sweeper struct {
	// Plugin reads and frees; it needs no Kind.
	Plugin attach.Plugin
	// Sandboxes returns the ids of all sandboxes that the runtime knows, in whatever state.
	Sandboxes func(context.Context) ([]string, error)

	since map[string]time.Time
}

// Pass frees what the sandboxes hold that have been unknown for the grace time, and returns their ids. If HNS, the
// addresses or the runtime cannot be read, nothing is freed and nothing counts as seen.
func (s *Sweeper) Pass(ctx context.Context, config *contract.Config, now time.Time) (freed []string, err error) {
	// In this order: a sandbox that comes after the first list is in neither.
	held, err := s.Plugin.Attachments(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("looking for networks of sandboxes: %w", err)
	}
	known, err := s.Sandboxes(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the runtime for its sandboxes: %w", err)
	}
	s.since = unknownSince(held, known, s.since, now)

	var errs []error
	for _, a := range held { // one sandbox may be there with several interfaces
		if t, unknown := s.since[a.ContainerID]; !unknown || now.Sub(t) < Grace {
			continue
		}
		call := attach.Call{Container: a.ContainerID, Interface: a.IfName, Config: config}
		if err := s.Plugin.Del(ctx, call); err != nil {
			errs = append(errs, fmt.Errorf("freeing the network of sandbox %s: %w", a.ContainerID, err))
			continue
		}
		freed = append(freed, a.ContainerID)
	}

	for _, sandbox := range freed {
		delete(s.since, sandbox)
	}
	slices.Sort(freed)
	return slices.Compact(freed), errors.Join(errs...)
}

// unknownSince returns the sandboxes that hold something and that the runtime does not know, with the time of the
// first pass in which it was so. A sandbox that is known again begins anew.
func unknownSince(held []types.GCAttachment, known []string, before map[string]time.Time,
	now time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for _, a := range held {
		if slices.Contains(known, a.ContainerID) {
			continue
		}
		out[a.ContainerID] = now
		if t, was := before[a.ContainerID]; was {
			out[a.ContainerID] = t
		}
	}
	return out
}

// Waiting returns the sandboxes that are unknown and within the grace time, sorted.
func (s *Sweeper) Waiting() []string { return slices.Sorted(maps.Keys(s.since)) }
