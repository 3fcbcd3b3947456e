package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
)

// serviceStates are the states of the Windows service with what each call is answered meanwhile.
var serviceStates = map[string]*hnsd.Error{
	"running":  nil,
	"stopped":  hnsd.ErrServiceNotStarted,
	"stopping": hnsd.ErrServiceStopping,
	"starting": hnsd.ErrNotRegistered,
	"gone":     hnsd.ErrServerUnavailable,
	"missing":  hnsd.ErrServiceMissing,
}

// ServiceRequest changes the state of the service.
type ServiceRequest struct {
	// State is running, stopped, stopping, starting, gone or missing. Running while it runs is a restart.
	State string `json:"state"`
	// Keep says what is there when it runs again: "all" (default); "none": networks, namespaces and local endpoints
	// stay, load balancers, remote endpoints and routes are lost; "half": of those every second one is lost.
	Keep string `json:"keep,omitempty"`
	// Lose names the kinds that are lost besides: Network (with its endpoints), LocalEndpoint, RemoteEndpoint,
	// Endpoint, LoadBalancer, SdnRoute, Namespace.
	Lose  []string `json:"lose,omitempty"`
	ForMs int      `json:"forMs,omitempty"` // after this it runs again; 0: it stays so
}

// ServiceStatus is the state of the service.
type ServiceStatus struct {
	State    string `json:"state"`
	Restarts int    `json:"restarts"`
	Lost     int    `json:"lost"` // objects, at the last restart
}

// lifecycle owns the state of the service.
type lifecycle struct {
	// What ends with the service: required.
	endHandles, endCallbacks func()
	// lose forgets the objects that are chosen and counts them; required.
	lose func(ctx context.Context, chosen func(*hnsd.Object) bool) (int, error)

	mu       sync.Mutex
	state    string // "" is running
	restarts int
	lost     int
	down     chan struct{} // closed when it stops running; nil until somebody waits
	timer    *time.Timer
	changed  int // counts requests, so that a timer of an old one does nothing
}

// refusal is what calls are answered now; nil while the service runs.
func (l *lifecycle) refusal() *hnsd.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return serviceStates[l.state]
}

// untilDown is closed when the service stops running, or starts again.
func (l *lifecycle) untilDown() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil {
		l.down = make(chan struct{})
	}
	return l.down
}

func (l *lifecycle) status() ServiceStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := ServiceStatus{State: l.state, Restarts: l.restarts, Lost: l.lost}
	if st.State == "" {
		st.State = "running"
	}
	return st
}

// enter changes the state and gives the number of the change.
// It ends a timer and wakes those who wait for a change. The number is for is.
func (l *lifecycle) enter(state string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.down != nil {
		close(l.down)
		l.down = nil
	}
	l.state = state
	l.changed++
	return l.changed
}

// is reports whether no request came after that change.
func (l *lifecycle) is(change int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed == change
}

// request changes the state. ctx is the daemon's: a timed return outlives the request.
func (l *lifecycle) request(ctx context.Context, q ServiceRequest) error {
	if _, ok := serviceStates[q.State]; !ok {
		return fmt.Errorf("no state %q: there are %s", q.State,
			strings.Join(slices.Sorted(maps.Keys(serviceStates)), ", "))
	}
	lost, err := lostKinds(q)
	if err != nil {
		return err
	}
	log := klog.FromContext(ctx)
	if q.State == "running" {
		return l.restart(ctx, lost)
	}
	// Programs lose handles and registrations at once; requests for objects fail until the state is
	// left.
	change := l.enter(q.State)
	l.endHandles()
	l.endCallbacks()
	log.Info("HNS service", "state", q.State, "forMs", q.ForMs)
	if q.ForMs <= 0 {
		return nil
	}

	// Another request may have come while the lock was not held.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != change {
		return nil
	}
	l.timer = time.AfterFunc(time.Duration(q.ForMs)*time.Millisecond, func() {
		if ctx.Err() != nil || !l.is(change) {
			return
		}
		if err := l.restart(ctx, lost); err != nil {
			log.Error(err, "Starting the HNS service again")
		}
	})
	return nil
}

// restart forgets what is lost, and answers calls again.
func (l *lifecycle) restart(ctx context.Context, lost func(*hnsd.Object) bool) error {
	n := 0
	err := l.whileDown(func() (err error) {
		n, err = l.lose(ctx, lost)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lost = n
		return err
	})
	klog.FromContext(ctx).Info("HNS service", "state", "running", "lost", n)
	return err
}

// whileDown calls f while the service starts again. Calls are refused meanwhile, so that nobody sees half of what f
// does; afterwards every handle and every registration of programs has ended.
func (l *lifecycle) whileDown(f func() error) error {
	l.enter("starting")
	l.endCallbacks()
	err := f()
	l.endHandles()
	l.enter("running")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarts++
	return err
}

// lostKinds is the choice of objects that a restart loses.
func lostKinds(q ServiceRequest) (func(*hnsd.Object) bool, error) {
	for _, k := range q.Lose {
		if !slices.ContainsFunc(hnsd.KindNames(), func(n string) bool { return strings.EqualFold(n, k) }) {
			return nil, fmt.Errorf("no kind %q: there are %s", k, strings.Join(hnsd.KindNames(), ", "))
		}
	}
	// count goes on over all objects that the restart looks at: every second one that is volatile
	// is lost.
	count := 0
	var volatile func() bool
	switch q.Keep {
	case "", "all":
		volatile = func() bool { return false }
	case "none":
		volatile = func() bool { return true }
	case "half":
		volatile = func() bool { count++; return count%2 == 0 }
	default:
		return nil, fmt.Errorf("keep %q: all, none or half", q.Keep)
	}
	return func(o *hnsd.Object) bool {
		named := slices.ContainsFunc(q.Lose, func(k string) bool { return o.Is(k) })
		return named || (o.Is("LoadBalancer") || o.Is("RemoteEndpoint") || o.Is("SdnRoute")) && volatile()
	}, nil
}
