package runtimetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/faults"
)

// Outcome is what a fault makes of a call.
type Outcome int

// What a fault can do.
const (
	Work       Outcome = iota // nothing unusual
	Fail                      // an error, and nothing has changed
	DoThenFail                // the change is made, and the caller gets an error
	Hang                      // no answer until the caller gives up or SetFault lets the call go on
)

// Call is one request, as faults and latencies see it.
type Call struct {
	// Method is the name in CRI, for example "CreateContainer".
	Method string
	// ID is the sandbox or container that the call names; empty if it creates one or lists.
	ID string
	// Pod is the UID of the pod that the call is about, and PodName its name; empty if it is about none or an unknown
	// one.
	Pod, PodName string
}

// Process is what a container does once it is started.
type Process struct {
	// Runs is how long the process runs; 0 is until it is stopped.
	Runs time.Duration
	// ExitCode is the code that it then ends with.
	ExitCode int32
	// Stops is how long it takes to end after the signal to stop, and StopCode the code that it then ends with. With
	// IgnoresStop it goes on until it is killed.
	Stops       time.Duration
	StopCode    int32
	IgnoresStop bool
	// StartError lets the start fail, as a program that does not exist does.
	StartError string
}

// Fake is one runtime. Set its exported fields before the first use. Its methods are safe for concurrent use.
type Fake struct {
	faults.Counter // of the calls so far, by method
	// Fault, if set, is asked about each call.
	Fault func(Call) Outcome
	// Latency, if set, is how long a call takes. The change is made when half of it has passed.
	Latency func(Call) time.Duration
	// Program, if set, says what a container does; nil is TestProgram.
	Program func(*cri.ContainerConfig) Process
	// RunCommand, if set, runs a command in a container; nil is TestExec.
	RunCommand func(c *cri.ContainerConfig, cmd []string) (exitCode int32, output string, took time.Duration)
	// LoseEvent, if set, reports whether an event gets lost.
	LoseEvent func(*cri.ContainerEventResponse) bool
	// Memory, if set, is what a container uses in bytes.
	Memory func(*cri.ContainerConfig) uint64
	// LateEnds makes the Fake behave as containerd on Windows: the end of a container is seen 5 s after its start at
	// the earliest, and a start that fails takes 5 s.
	LateEnds bool
	// Config, if set, is the answer to RuntimeConfig; nil is a runtime that does not know the call.
	Config *cri.RuntimeConfigResponse
	// Registry, if set, is asked for each pull and returns an error for an image that cannot be pulled.
	Registry func(image string) error

	mu          sync.Mutex
	next        int
	sandboxes   []*sandbox
	containers  []*container
	names       map[string]string // reserved name to id
	images      []*cri.Image
	streams     []*eventStream
	unsent      []*cri.ContainerEventResponse // while nobody listens
	stale       bool                          // a subscriber went away, and no event has shown it yet
	networkDown bool
	away        bool
	changed     chan struct{} // closed and replaced when waiting calls should check again
}

// runtimeServer answers the calls about sandboxes and containers, and imageServer those about images.
type (
	runtimeServer struct {
		cri.UnimplementedRuntimeServiceServer
		*Fake
	}
	imageServer struct {
		cri.UnimplementedImageServiceServer
		*Fake
	}
)

var (
	_ cri.RuntimeServiceServer = runtimeServer{}
	_ cri.ImageServiceServer   = imageServer{}
)

// New makes a runtime that has nothing but the named images.
func New(images ...string) *Fake {
	f := &Fake{names: map[string]string{}, changed: make(chan struct{})}
	for _, name := range images {
		f.images = append(f.images, newImage(name))
	}
	return f
}

// OneIn is a fault that makes one in n calls misbehave, at random; the same seed gives the same sequence.
func OneIn(n int, seed uint64, how ...Outcome) func(Call) Outcome {
	return faults.OneIn[Call](n, seed, how...)
}

// SetFault replaces the fault. Calls that hang are asked about again.
func (f *Fake) SetFault(fault func(Call) Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Fault = fault
	f.wakeWaiting()
}

// SetNetwork changes whether the pod network is ready. Without it the runtime reports so and makes no sandbox that
// needs it.
func (f *Fake) SetNetwork(ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.networkDown = !ready
}

// Away takes the service away, as while containerd restarts: event streams break, calls under way fail, and new ones
// wait until Back. Containers go on.
func (f *Fake) Away() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = true
	f.breakStreams()
	f.wakeWaiting()
}

// Back ends Away.
func (f *Fake) Back() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = false
	f.wakeWaiting()
}

// Vanish removes every sandbox and container without an event, as a runtime whose state was deleted. Images stay.
func (f *Fake) Vanish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		c.end(137)
	}
	f.sandboxes, f.containers, f.names, f.unsent = nil, nil, map[string]string{}, nil
	f.breakStreams()
}

// breakStreams ends the event streams; the caller holds the lock.
func (f *Fake) breakStreams() {
	for _, s := range f.streams {
		close(s.broken)
	}
	f.streams = nil
}

// wakeWaiting makes calls that hang or wait for Back check again; the caller holds the lock.
func (f *Fake) wakeWaiting() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Dump prints sandboxes and containers, one line each, sorted: "container running ns/pod name#attempt".
func (f *Fake) Dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, s := range f.sandboxes {
		state := "ready"
		if !s.ready {
			state = "notready"
		}
		m := s.config.GetMetadata()
		lines = append(lines, fmt.Sprintf("sandbox %s %s/%s#%d\n", state, m.GetNamespace(), m.GetName(),
			m.GetAttempt()))
	}
	for _, c := range f.containers {
		m, p := c.config.GetMetadata(), c.sandbox.config.GetMetadata()
		state := strings.ToLower(strings.TrimPrefix(c.state.String(), "CONTAINER_"))
		lines = append(lines, fmt.Sprintf("container %s %s/%s %s#%d\n", state, p.GetNamespace(), p.GetName(),
			m.GetName(), m.GetAttempt()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Running returns the ids of the running containers by "pod/container".
func (f *Fake) Running() map[string][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string][]string{}
	for _, c := range f.containers {
		if c.state == cri.ContainerState_CONTAINER_RUNNING {
			key := c.sandbox.config.GetMetadata().GetName() + "/" + c.config.GetMetadata().GetName()
			out[key] = append(out[key], c.id)
		}
	}
	return out
}

// Crash ends the process of a running container with a code; it reports whether there was one.
func (f *Fake) Crash(id string, code int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.container(id)
	return c != nil && f.exit(c, code)
}

// CrashSandbox ends the process of a sandbox, as a shim that was killed. It reports whether there was a ready one.
func (f *Fake) CrashSandbox(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sandbox(id)
	if s == nil || !s.ready {
		return false
	}
	f.sandboxDown(s)
	return true
}

// newID counts up, with as many digits as the IDs of containerd. The caller holds the lock.
func (f *Fake) newID() string {
	f.next++
	return fmt.Sprintf("%064x", f.next)
}

// enter counts a call, waits while the service is away, and then for half of the call's latency. If it returns an
// error, the call changes nothing and has this error.
func (f *Fake) enter(ctx context.Context, c Call) (Outcome, error) {
	f.CountCall(c.Method)
	f.mu.Lock()
	latency := time.Duration(0)
	if f.Latency != nil {
		latency = f.Latency(c)
	}
	outcome := Work
	if f.Fault != nil {
		outcome = f.Fault(c)
	}
	// A call that hangs asks again whenever the test changes something, so that it can be let go.
	for f.away || outcome == Hang {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return Fail, status.FromContextError(ctx.Err()).Err()
		case <-changed:
		}
		f.mu.Lock()
		if outcome == Hang {
			outcome = Work
			if f.Fault != nil {
				outcome = f.Fault(c)
			}
		}
	}
	f.mu.Unlock()

	if err := f.pause(ctx, latency/2); err != nil {
		return Fail, err
	}
	if outcome == Fail {
		return Fail, failed(c)
	}
	return outcome, nil
}

// leave waits for the other half of a call's latency. An error replaces the answer of the call, whose change stays.
func (f *Fake) leave(ctx context.Context, c Call, outcome Outcome) error {
	f.mu.Lock()
	latency := time.Duration(0)
	if f.Latency != nil {
		latency = f.Latency(c)
	}
	f.mu.Unlock()
	if err := f.pause(ctx, latency/2); err != nil {
		return err
	}
	if outcome == DoThenFail {
		return failed(c)
	}
	return nil
}

// failed is the error of a call that Fault makes fail.
func failed(c Call) error {
	return status.Errorf(codes.Unknown, "%s fails because the test says so", c.Method)
}

// pause waits for d. It returns an error if ctx ends or the service goes away before.
func (f *Fake) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		f.mu.Lock()
		away, changed := f.away, f.changed
		f.mu.Unlock()
		if away {
			return status.Error(codes.Unavailable, "error reading from server: EOF")
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-changed:
		case <-timer.C:
			return nil
		}
	}
}

// answer handles a call whose change is made in one step: do runs under the lock, unless enter returns an error.
func answer[T any](ctx context.Context, f *Fake, c Call, do func() (*T, error)) (*T, error) {
	outcome, err := f.enter(ctx, c)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	out, err := do()
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := f.leave(ctx, c, outcome); err != nil {
		return nil, err
	}
	return out, nil
}

// about returns the Call for a method that names a sandbox or container.
func (f *Fake) about(method, id string) Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sandbox(id)
	if c := f.container(id); c != nil {
		s = c.sandbox
	}
	if s == nil {
		return Call{Method: method, ID: id}
	}
	m := s.config.GetMetadata()
	return Call{Method: method, ID: id, Pod: m.GetUid(), PodName: m.GetName()}
}

// reserve reserves a name for an id. It returns an error if the name is reserved; the caller holds the lock.
func (f *Fake) reserve(kind, name, id string) error {
	if owner := f.names[name]; owner != "" {
		return status.Errorf(codes.Unknown, "failed to reserve %s name %q: name %q is reserved for %q", kind, name,
			name, owner)
	}
	f.names[name] = id
	return nil
}

// release frees the name of an id; the caller holds the lock.
func (f *Fake) release(id string) {
	maps.DeleteFunc(f.names, func(_, owner string) bool { return owner == id })
}

// errVanished is the answer to a call whose object Vanish removed meanwhile.
var errVanished = status.Error(codes.Unavailable, "the runtime was restarted without its state")

// unknown is what containerd answers for an ID that it does not have.
func unknown(kind, id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find %s %q: not found", kind, id)
}
