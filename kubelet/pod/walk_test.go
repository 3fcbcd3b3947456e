package pod

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// walk carries a pod through chance: actions end well or badly or are cut off, containers and sandboxes die, probes give
// containers up, the kubelet is killed and begins anew from what the runtime and the API know.
type walk struct {
	t       *testing.T
	rand    *rand.Rand
	now     time.Time
	state   *State
	api     *v1.Pod
	runtime Runtime
	work    []Action
	bad     map[string]bool // containers that may be stopped although the pod goes on
	trail   []string
	next    int
	plan    Plan
	done    bool
	note    Resize             // what a kubelet finds that begins anew
	planned map[string]*v1.Pod // what an action that is under way was planned for, by key
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: now, bad: map[string]bool{}, planned: map[string]*v1.Pod{}}
	always := v1.ContainerRestartPolicyAlways
	w.api = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Generation: 1}}
	w.api.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[w.rand.IntN(3)]
	for i := range w.rand.IntN(3) {
		c := v1.Container{Name: fmt.Sprintf("init%d", i), Image: "i"}
		if w.rand.IntN(2) == 0 {
			c.RestartPolicy = &always
		}
		w.api.Spec.InitContainers = append(w.api.Spec.InitContainers, c)
	}
	for i := range 1 + w.rand.IntN(2) {
		w.api.Spec.Containers = append(w.api.Spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", i), Image: "i"})
	}
	w.sizes()
	w.begin()
	return w
}

// begin is a kubelet that has just started.
func (w *walk) begin() {
	w.state = &State{Pod: w.api.DeepCopy(), Admitted: true, Images: map[string]Image{}, Failures: map[string]*Failure{}, Backoffs: map[string]Backoff{},
		Probes: map[string]Probe{}, PostStart: map[string]PostStart{}, InFlight: map[string]time.Time{}, Resize: w.note}
	w.see()
}

func (w *walk) see() {
	r := w.runtime
	r.Sandboxes, r.Containers = slices.Clone(r.Sandboxes), slices.Clone(r.Containers)
	w.state.Runtime = &r
}

func (w *walk) say(format string, args ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, args...))
}

func (w *walk) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(w.trail, "\n"))
}

// look is one pass of the actor.
func (w *walk) look() {
	p := Reconcile(w.state, Facts{RuntimeName: "containerd"}, w.now)
	if broken := Broken(w.state, &p); broken != nil {
		w.fatal("broken: %v\nplan:\n%s", broken, p.Dump())
	}
	if p.Stopping && w.state.StopSince.IsZero() {
		w.state.StopSince = w.now
	}
	st := p.Status
	w.state.Last, w.api.Status = &st, st
	for _, a := range p.Actions {
		if c, ok := w.state.Runtime.Find(a.ID); a.Kind == StopContainer && ok && !p.Stopping && !w.bad[a.ID] && !w.restartsFor(&c) {
			box, _ := w.state.Runtime.Sandbox()
			if box.Ready && box.ID == c.SandboxID {
				w.fatal("a healthy container is stopped: %s", a)
			}
		}
		w.say("  plan %s", a)
		w.state.InFlight[a.Key] = a.Deadline
		if a.Backoff != nil {
			w.state.Backoffs[a.Name] = *a.Backoff
		}
		w.planned[a.Key] = w.state.Pod
		w.work = append(w.work, a)
	}
	w.plan, w.done = p, p.Finished
}

// finish lets one action end; half leaves it where a killed kubelet would.
func (w *walk) finish(a Action, well, half bool) {
	if !half {
		delete(w.state.InFlight, a.Key)
	}
	w.say("  %s ends well=%v cut=%v", a, well, half)
	s := w.state
	fail := func(key string) { s.Failures[key] = &Failure{Reason: "x", RetryAt: w.now.Add(time.Second)} }
	w.next++
	id := fmt.Sprint("o", w.next)
	switch a.Kind {
	case PrepareVolumes:
		s.VolumesReady = well
	case EnsureImage:
		if s.Images[a.Name] = (Image{Ref: "r"}); !well {
			s.Images[a.Name] = Image{Failure: &Failure{RetryAt: w.now.Add(time.Second)}}
		}
	case CreateSandbox:
		if w.runtime.Sandboxes = append(w.runtime.Sandboxes, Sandbox{ID: id, Attempt: a.Attempt, Ready: true, IPs: []string{"10.0.0.1"}, CreatedAt: w.now}); !well {
			w.runtime.Sandboxes = w.runtime.Sandboxes[:len(w.runtime.Sandboxes)-1]
			fail(SandboxKey)
		}
	case StartContainer:
		c := Container{ID: id, SandboxID: a.ID, Name: a.Name, Attempt: a.Attempt, CreatedAt: w.now, State: Running, StartedAt: w.now}
		size := ResourcesOf(w.planned[a.Key]).Containers[a.Name]
		c.MadeWith = &size
		if box := w.runtime.sandbox(); box == nil || box.ID != a.ID || !box.Ready {
			fail(a.Name)
			break
		}
		if !well || half {
			c.State, c.StartedAt = Created, time.Time{}
			fail(a.Name)
		}
		delete(s.Images, a.Name)
		w.runtime.Containers = append(w.runtime.Containers, c)
	case StopContainer:
		if well {
			w.exit(a.ID, 137)
		} else {
			fail(a.Key)
		}
	case StopSandbox:
		for i := range w.runtime.Sandboxes {
			if w.runtime.Sandboxes[i].ID == a.ID && well {
				w.runtime.Sandboxes[i].Ready = false
			}
		}
	case RemoveContainer, RemoveSandbox:
		if well {
			w.runtime = *w.runtime.Without(a.ID)
		} else {
			fail(RemoveKey)
		}
	case ResizePod:
		w.resized(a, w.planned[a.Key], well)
	case Cleanup:
		s.Cleaned = well
	}
	w.see()
}

func (w *walk) exit(id string, code int32) {
	for i := range w.runtime.Containers {
		if c := &w.runtime.Containers[i]; c.ID == id && c.State == Running {
			c.State, c.ExitCode, c.FinishedAt = Exited, code, w.now
		}
	}
}

// live picks a running container, or none.
func (w *walk) live() *Container {
	for _, i := range w.rand.Perm(len(w.runtime.Containers)) {
		if c := &w.runtime.Containers[i]; c.State == Running {
			return c
		}
	}
	return nil
}

// stumble is one thing that happens.
func (w *walk) stumble() {
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
			no := false
			w.bad[c.ID] = true
			w.state.Probes[c.Name] = Probe{ContainerID: c.ID, Live: &no, Message: "failed liveness probe"}
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
	case n < 16 && w.state.Pod.DeletionTimestamp == nil:
		w.resize()
	default:
		w.now = w.now.Add(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
	}
}

// endInit ends the init containers that run and are not sidecars.
func (w *walk) endInit() (any bool) {
	for i := range w.runtime.Containers {
		c := &w.runtime.Containers[i]
		j := slices.IndexFunc(w.api.Spec.InitContainers, func(s v1.Container) bool { return s.Name == c.Name && !isSidecar(&s) })
		if c.State == Running && j >= 0 {
			w.exit(c.ID, 0)
			any = true
		}
	}
	w.see()
	return any
}

// settle lets everything end well until the pod rests or is gone.
func (w *walk) settle() {
	for range 400 {
		w.look()
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

// TestRandomWalks: whatever happens, no invariant breaks; left alone the pod runs, or has ended; deleted it leaves nothing.
func TestRandomWalks(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWalk(t, seed)
			for range 120 {
				w.look()
				w.stumble()
			}
			w.settle()
			if phase := w.plan.Status.Phase; !terminal(phase) && phase != v1.PodRunning {
				w.fatal("it rests in phase %s", phase)
			}
			w.checkSizes()
			for _, c := range w.plan.Status.ContainerStatuses {
				if w.plan.Status.Phase == v1.PodRunning && w.api.Spec.RestartPolicy == v1.RestartPolicyAlways && !c.Ready {
					w.fatal("container %s is not ready: %+v", c.Name, c.State)
				}
			}
			t0, grace := metav1.NewTime(w.now), int64(5)
			w.state.Pod = w.state.Pod.DeepCopy()
			w.state.Pod.DeletionTimestamp, w.state.Pod.DeletionGracePeriodSeconds = &t0, &grace
			w.api = w.state.Pod
			for range 60 {
				w.look()
				w.stumble()
			}
			w.settle()
			if !w.plan.Delete {
				w.fatal("it is not deleted in phase %s", w.plan.Status.Phase)
			}
			w.state.Gone = true
			w.settle()
			if !w.done || len(w.runtime.Sandboxes)+len(w.runtime.Containers) > 0 {
				w.fatal("left: %+v", w.runtime)
			}
		})
	}
}
