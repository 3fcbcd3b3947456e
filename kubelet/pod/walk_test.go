package pod

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// walk is a random life of a pod: actions succeed, fail or are cut off, containers and sandboxes die, probes fail, and
// the kubelet is killed and starts again from what the runtime and the API have. The walk plays the node and the
// runtime. The state is changed by facts only.
type walk struct {
	t     *testing.T
	rand  *rand.Rand
	now   time.Time
	calm  bool // the node agrees to every resize
	trail []string
	// log has the facts and plans since the kubelet began, of one walk in eight: writing them takes ten times as long
	// as the walk.
	log       bytes.Buffer
	recording bool

	state *State
	plan  Plan
	done  bool
	work  []Action           // under way
	bad   map[string]bool    // containers that may be stopped although the pod goes on
	asked map[string]*v1.Pod // what an action that is under way was planned for, by key

	api     *v1.Pod
	runtime observed.Runtime
	note    Resize // what a kubelet finds that begins again
	next    int
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{t: t, recording: seed%8 == 0, rand: rand.New(rand.NewPCG(seed, 1)), now: now, bad: map[string]bool{},
		asked: map[string]*v1.Pod{}}
	always := v1.ContainerRestartPolicyAlways
	w.api = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Generation: 1}}
	w.api.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure,
		v1.RestartPolicyNever}[w.rand.IntN(3)]

	for i := range w.rand.IntN(3) {
		c := v1.Container{Name: fmt.Sprintf("init%d", i), Image: "i"}
		if w.rand.IntN(2) == 0 {
			c.RestartPolicy = &always
		}
		w.api.Spec.InitContainers = append(w.api.Spec.InitContainers, c)
	}

	for i := range 1 + w.rand.IntN(2) {
		c := v1.Container{Name: fmt.Sprintf("c%d", i), Image: "i"}
		if w.rand.IntN(3) == 0 {
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
		}
		w.api.Spec.Containers = append(w.api.Spec.Containers, c)
	}

	w.sizes()
	w.begin()
	return w
}

// begin is a kubelet that has just started.
func (w *walk) begin() {
	w.replay()
	w.state = NewState()
	w.take(Desired{Pod: w.api.DeepCopy()})
	w.take(Checked{Runtime: w.snapshot(), Began: w.now})
	w.take(SourcesReady{})
}

func (w *walk) take(f Fact) {
	w.state.Take(f, w.now)
	if w.recording {
		w.record(FactEntry(f, w.now))
	}
}

func (w *walk) record(line []byte, err error) {
	if err != nil {
		w.fatal("recording: %v", err)
	}
	w.log.Write(line)
}

// replay plays what was recorded again, and wants the same plans.
func (w *walk) replay() {
	steps, err := Replay(&w.log)
	if err != nil {
		w.fatal("replaying: %v", err)
	}
	for n, s := range steps {
		if !s.Same() {
			w.fatal("replayed, plan %d is\n%sand not\n%s", n, s.Replayed, s.Recorded)
		}
	}
	w.log.Reset()
}

func (w *walk) snapshot() *observed.Runtime {
	r := w.runtime
	r.Sandboxes, r.Containers = slices.Clone(r.Sandboxes), slices.Clone(r.Containers)
	return &r
}

// see is an event of the runtime.
func (w *walk) see() { w.take(Observed{Runtime: w.snapshot()}) }

func (w *walk) say(format string, args ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, args...))
}

func (w *walk) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(w.trail, "\n"))
}

// pass is one pass of the actor.
func (w *walk) pass() {
	w.askNode()
	node := Node{RuntimeName: "containerd"}
	p := Reconcile(w.state, node, w.now)
	if w.recording {
		w.record(NewPlanEntry(node, &p, w.now))
	}
	if broken := Broken(w.state, &p); broken != nil {
		w.fatal("broken: %v\nplan:\n%s", broken, p.Dump())
	}
	if p.Stopping {
		w.take(StopBegan{})
	}

	w.take(Published{Status: p.Status})
	w.take(EventsSent{})
	w.api.Status = p.Status

	for _, a := range p.Actions {
		w.checkStop(a, &p)
		w.say("  plan %s", a)
		w.take(ActionStarted{Action: a})
		w.asked[a.Key] = w.state.Pod()
		w.work = append(w.work, a)
	}

	w.plan, w.done = p, p.Finished
}

// checkStop fails if a container is stopped without a reason.
func (w *walk) checkStop(a Action, p *Plan) {
	c, ok := w.state.Runtime().Find(a.ID)
	if a.Kind != StopContainer || !ok || p.Stopping || w.bad[a.ID] || w.restartsFor(&c) {
		return
	}
	if box, _ := w.state.Runtime().Sandbox(); box.Ready && box.ID == c.SandboxID {
		w.fatal("a healthy container is stopped: %s", a)
	}
}

// finish lets one action end; cut leaves it where a killed kubelet would.
func (w *walk) finish(a Action, well, cut bool) {
	w.say("  %s ends well=%v cut=%v", a, well, cut)
	if !well && w.rand.IntN(8) == 0 {
		w.bad[a.ID] = w.bad[a.ID] || a.Kind == RunHook
		w.take(TaskPanicked{Action: a, Message: "x"})
		return
	}

	outcome := w.carryOut(a, well, cut)
	if !cut {
		w.take(outcome)
		w.see()
		if a.Kind == ResizePod {
			w.note = w.state.Note()
		}
	}
}

// carryOut does to the runtime what an action does, and returns the fact that comes of it.
func (w *walk) carryOut(a Action, well, cut bool) Fact {
	w.next++
	id := fmt.Sprint("o", w.next)
	pick := func(good, bad Fact) Fact {
		if well {
			return good
		}
		return bad
	}

	switch a.Kind {
	case PrepareVolumes:
		return pick(VolumesPrepared{}, VolumesFailed{})
	case EnsureImage:
		asked := ImageAsked{Container: a.Name, Image: "i"}
		return pick(ImagePresent{ImageAsked: asked, Ref: "r"},
			ImageFailed{ImageAsked: asked, RetryAt: w.now.Add(time.Second)})
	case CreateSandbox:
		box := observed.Sandbox{ID: id, Attempt: a.Attempt, Ready: true, IPs: []string{"10.0.0.1"}, CreatedAt: w.now}
		if well {
			w.runtime.Sandboxes = append(w.runtime.Sandboxes, box)
		}
		return pick(SandboxMade{box}, SandboxFailed{})
	case StartContainer:
		return w.startContainer(a, id, well && !cut)
	case RunHook:
		if !well {
			w.bad[a.ID] = true
		}
		return pick(HookDone{Name: a.Name, ContainerID: a.ID}, HookFailed{Name: a.Name, ContainerID: a.ID})
	case StopContainer:
		if well {
			w.exit(a.ID, 137)
		}
		return pick(ContainerStopped{Key: a.Key, ID: a.ID}, StopFailed{Key: a.Key})
	case StopSandbox:
		if well {
			w.runtime = *w.runtime.SandboxDown(a.ID)
		}
		return pick(SandboxStopped{ID: a.ID}, SandboxStopFailed{ID: a.ID})
	case RemoveContainer, RemoveSandbox:
		if well {
			w.runtime = *w.runtime.Without(a.ID)
		}
		return pick(RemoveDone{ID: a.ID}, RemoveFailed{ID: a.ID})
	case ResizePod:
		return w.resized(a, w.asked[a.Key], well)
	case Cleanup:
		return pick(CleanedUp{}, CleanupFailed{})
	}

	return ActionDropped{Key: a.Key}
}

func (w *walk) startContainer(a Action, id string, well bool) Fact {
	if box := w.runtime.NewestSandbox(); box == nil || box.ID != a.ID || !box.Ready {
		return StartFailed{Name: a.Name}
	}

	c := observed.Container{ID: id, SandboxID: a.ID, Name: a.Name, Attempt: a.Attempt, CreatedAt: w.now,
		State: observed.Running, StartedAt: w.now}
	size := desired.ResourcesOf(w.asked[a.Key]).Containers[a.Name]
	c.MadeWith = &size
	if !well {
		c.State, c.StartedAt = observed.Created, time.Time{}
	}
	w.runtime.Containers = append(w.runtime.Containers, c)
	if !well {
		return StartFailed{Name: a.Name, Container: &c}
	}
	spec := desired.Find(w.api, a.Name)
	return ContainerStarted{Container: c, Hook: spec.Lifecycle != nil}
}

func (w *walk) exit(id string, code int32) {
	for i := range w.runtime.Containers {
		if c := &w.runtime.Containers[i]; c.ID == id && c.State == observed.Running {
			c.State, c.ExitCode, c.FinishedAt = observed.Exited, code, w.now
		}
	}
}

// live picks a running container, or none.
func (w *walk) live() *observed.Container {
	for _, i := range w.rand.Perm(len(w.runtime.Containers)) {
		if c := &w.runtime.Containers[i]; c.State == observed.Running {
			return c
		}
	}
	return nil
}

// happen lets one thing happen.
func (w *walk) happen() {
	switch n := w.rand.IntN(20); {
	case n < 10 && len(w.work) > 0:
		i := w.rand.IntN(len(w.work))
		a := w.work[i]
		w.work = slices.Delete(w.work, i, i+1)
		w.finish(a, w.rand.IntN(5) > 0, false)

	case n < 12:
		if c := w.live(); c != nil {
			w.say("%s exits", c.ID)
			w.exit(c.ID, int32(w.rand.IntN(2)))
			w.see()
		}

	case n < 13:
		if c := w.live(); c != nil {
			w.say("%s is given up by its probe", c.ID)
			w.bad[c.ID] = true
			w.take(Probed{Container: c.Name, ContainerID: c.ID, Kind: LivenessProbe})
		}

	case n < 14 && len(w.runtime.Sandboxes) > 0:
		b := w.runtime.Sandboxes[w.rand.IntN(len(w.runtime.Sandboxes))].ID
		w.say("sandbox %s dies", b)
		for _, c := range w.runtime.Containers {
			if c.SandboxID == b {
				w.exit(c.ID, 137)
			}
		}
		w.runtime = *w.runtime.SandboxDown(b)
		w.see()

	case n < 15:
		w.say("the kubelet is killed")
		for _, a := range w.work {
			if w.rand.IntN(2) == 0 {
				w.finish(a, true, w.rand.IntN(2) == 0)
			}
		}
		w.work = nil
		w.begin()

	case n < 16 && w.api.DeletionTimestamp == nil:
		w.resize()
	default:
		w.now = w.now.Add(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
	}
}

// endInit ends the init containers that run and are not sidecars.
func (w *walk) endInit() (any bool) {
	for i := range w.runtime.Containers {
		c := &w.runtime.Containers[i]
		j := slices.IndexFunc(w.api.Spec.InitContainers,
			func(s v1.Container) bool { return s.Name == c.Name && !desired.IsSidecar(&s) })
		if c.State == observed.Running && j >= 0 {
			w.exit(c.ID, 0)
			any = true
		}
	}
	w.see()
	return any
}

// settle lets everything end well until the pod rests or is gone.
func (w *walk) settle() {
	w.calm = true
	for range 400 {
		w.pass()
		if w.done {
			return
		}
		if len(w.work) == 0 {
			if w.endInit() {
				continue
			}
			if w.plan.NextWake.IsZero() {
				return
			}
			w.now = w.plan.NextWake.Add(time.Millisecond)
			continue
		}
		a := w.work[0]
		w.work = w.work[1:]
		w.finish(a, true, false)
	}
	w.fatal("it does not come to rest")
}

// TestRandomWalks: whatever happens, no invariant breaks; left alone the pod runs, or has ended; deleted it leaves
// nothing.
func TestRandomWalks(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWalk(t, seed)
			for range 120 {
				w.pass()
				w.happen()
			}

			w.settle()
			if phase := w.plan.Status.Phase; !terminal(phase) && phase != v1.PodRunning {
				w.fatal("it rests in phase %s", phase)
			}
			w.checkSizes()

			for _, c := range w.plan.Status.ContainerStatuses {
				if w.plan.Status.Phase == v1.PodRunning && w.api.Spec.RestartPolicy == v1.RestartPolicyAlways &&
					!c.Ready {
					w.fatal("container %s is not ready: %+v", c.Name, c.State)
				}
			}

			t0, grace := metav1.NewTime(w.now), int64(5)
			w.calm = false
			w.api.DeletionTimestamp, w.api.DeletionGracePeriodSeconds = &t0, &grace
			w.take(Desired{Pod: w.api.DeepCopy()})
			for range 60 {
				w.pass()
				w.happen()
			}
			w.settle()

			if !w.plan.Delete {
				w.fatal("it is not deleted in phase %s", w.plan.Status.Phase)
			}
			w.take(SourceGone{})
			w.settle()
			if !w.done || len(w.runtime.Sandboxes)+len(w.runtime.Containers) > 0 {
				w.fatal("left: %+v", w.runtime)
			}
			w.replay()
		})
	}
}
