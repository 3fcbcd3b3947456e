package kubelet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/kubelet/runtime"
)

// runtimePatience is how long a runtime may say nothing before the node is not ready: a restart is shorter. Upstream's
// is the same.
const runtimePatience = 30 * time.Second

// loopPatience is how long the loop that watches the runtime may take for one round, as upstream's health check has it.
const loopPatience = 5 * time.Minute

// runtimeWatch follows the health of the container runtime.
type runtimeWatch struct {
	service runtimeService
	// changed is called when the runtime or its network has become ready, or no longer is.
	changed func(runtime.Health)

	version atomic.Pointer[runtime.Version]
	health  atomic.Pointer[runtime.Health]
	// lastHealthy is the time of the runtime's last successful health call, lastRound that of the loop's last
	// iteration.
	lastHealthy, lastRound atomic.Pointer[time.Time]
}

// begin waits until the runtime answers.
func (w *runtimeWatch) begin(ctx context.Context) error {
	v, err := w.service.Version(ctx) // waits until the runtime can be reached
	for err != nil {
		klog.FromContext(ctx).Error(err, "Runtime does not answer yet")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		v, err = w.service.Version(ctx)
	}

	w.version.Store(&v)
	w.check(ctx)
	return nil
}

// check asks the runtime for its health and passes on what has changed.
func (w *runtimeWatch) check(ctx context.Context) {
	h, err := w.service.Health(ctx)
	if err != nil {
		if last := w.lastHealthy.Load(); last != nil && time.Since(*last) < runtimePatience {
			return
		}
		h = runtime.Health{RuntimeMessage: "container runtime is down: " + err.Error(), NetworkMessage: err.Error()}
	} else {
		now := time.Now()
		w.lastHealthy.Store(&now)
	}

	before := w.health.Swap(&h)
	if before == nil || before.NetworkReady != h.NetworkReady || before.RuntimeReady != h.RuntimeReady {
		w.changed(h)
	}
}

// askPeriod is how often the runtime is asked for its health while something is missing; restPeriod while all is well.
const (
	askPeriod  = 500 * time.Millisecond
	restPeriod = 5 * time.Second
)

// run asks the runtime for its health: often while something is missing, seldom when all is well.
func (w *runtimeWatch) run(ctx context.Context) {
	var asked time.Time
	loop.Loop{Later: true, Period: askPeriod, Pass: func(ctx context.Context) error {
		now := time.Now()
		w.lastRound.Store(&now)
		if h := w.health.Load(); !h.NetworkReady || !h.RuntimeReady || now.Sub(asked) > restPeriod {
			asked = now
			w.check(ctx)
		}
		return nil
	}}.Run(ctx)
}

// stuck returns an error if the loop has not come round for a long time.
func (w *runtimeWatch) stuck() error {
	if last := w.lastRound.Load(); last != nil && time.Since(*last) > loopPatience {
		return fmt.Errorf("sync Loop took longer than expected: its last round was at %s", last.Format(time.RFC3339))
	}
	return nil
}
