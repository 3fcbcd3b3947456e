package join

import (
	"context"
	"errors"
	"os"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/join/step"
)

// How often the kubelet of a node looks for an upgrade that was interrupted, and how often nobody may carry it on
// before it is taken back.
const (
	keepPeriod = 10 * time.Second
	keepLooks  = 3
)

// ErrRestart is the error of a kubelet that has to be started again, as the version of before.
var ErrRestart = errors.New(
	"the upgrade of this node was interrupted: this kubelet starts again as the version of before")

// Keep takes an upgrade of this node back that was interrupted, as by a power failure, if nobody carries it on for
// half a minute. It runs in the kubelet, which is exchanged last. It returns nil when ctx ends, and ErrRestart if the
// kubelet itself has to become the old one: that is prepared, and whoever starts services starts it again. kubeconfig
// is the kubelet's: one that is not of the node that join made is left alone.
func Keep(ctx context.Context, kubeconfig string) error {
	where := &Setup{}
	where.paths()
	if kubeconfig != where.Kubeconfig() {
		return nil
	}
	// abandoned counts how often in a row the upgrade was interrupted and nobody held the lock.
	for abandoned := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(keepPeriod):
		}
		j, err := readUpgrade(where.State)
		if err != nil || !j.Interrupted() { // a file that cannot be read is one that is being replaced, or nobody's
			abandoned = 0
			continue
		}

		unlock, err := lock(where.State)
		if err != nil { // somebody carries it on
			abandoned = 0
			continue
		}
		// An upgrade that only has a pause between two steps gets its time.
		if abandoned++; abandoned < keepLooks {
			unlock()
			continue
		}
		err = takeBack(ctx)
		unlock()
		if errors.Is(err, ErrRestart) {
			return ErrRestart
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Taking back an interrupted upgrade failed")
		}
		abandoned = 0
	}
}

// takeBack takes the interrupted exchange back. The lock is held.
func takeBack(ctx context.Context) error {
	s, joined, err := recalled()
	if err != nil || !joined {
		return err
	}
	x := &exchange{setup: s, report: step.NewReport("UpgradeReport"), self: os.Getpid(),
		say: func(text string) { klog.FromContext(ctx).Info("Upgrade", "what", text) }}
	// It is read again under the lock: somebody may have ended it since.
	if x.journal, err = readUpgrade(s.State); err != nil || !x.journal.Interrupted() {
		return err
	}
	return x.back(ctx, "it was interrupted")
}
