package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/kubelet/runtime"
)

// world is an API server with at most one node, a runtime and a machine.
type world struct {
	mu      sync.Mutex
	object  *v1.Node
	fail    []error // of the next calls, in order; nil is a success
	calls   []string
	events  []string
	cidrs   []string
	watcher func(*v1.Node)
	health  runtime.Health
}

// call records a call and returns the error that it is to have.
func (w *world) call(format string, args ...any) error {
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
	if len(w.fail) == 0 {
		return nil
	}
	err := w.fail[0]
	w.fail = w.fail[1:]
	return err
}

func notFound() error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n")
}

func (w *world) GetNode(context.Context) (*v1.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.call("get"); err != nil {
		return nil, err
	}
	if w.object == nil {
		return nil, notFound()
	}
	return w.object.DeepCopy(), nil
}

func (w *world) CreateNode(_ context.Context, n *v1.Node) (*v1.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.call("create"); err != nil {
		return nil, err
	}
	if w.object != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "nodes"}, "n")
	}
	w.object = n.DeepCopy()
	w.object.UID = "1"
	return w.object.DeepCopy(), nil
}

func (w *world) PatchNode(_ context.Context, patch []byte) (*v1.Node, error) {
	return w.patch("patch", patch)
}

func (w *world) PatchNodeStatus(_ context.Context, patch []byte) (*v1.Node, error) {
	return w.patch("status", patch)
}

// patch applies a strategic merge patch as the API server does.
func (w *world) patch(what string, patch []byte) (*v1.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.call("%s", what); err != nil {
		return nil, err
	}
	if w.object == nil {
		return nil, notFound()
	}

	before, err := json.Marshal(w.object)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(before, patch, v1.Node{})
	if err != nil {
		return nil, err
	}
	var after v1.Node
	if err := json.Unmarshal(merged, &after); err != nil {
		return nil, err
	}
	w.object = &after
	return after.DeepCopy(), nil
}

func (w *world) WatchNode(_ context.Context, changed func(*v1.Node)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watcher = changed
}

// change changes the node in the API, and tells the watcher.
func (w *world) change(f func(*v1.Node)) {
	w.mu.Lock()
	f(w.object)
	after, watcher := w.object.DeepCopy(), w.watcher
	w.mu.Unlock()
	watcher(after)
}

// take returns the calls since the last take, joined by spaces.
func (w *world) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.calls, " ")
	w.calls = nil
	return text
}

// heard returns the events since the last heard.
func (w *world) heard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.events
	w.events = nil
	return list
}

func newWorld(change func(*Options)) (*world, *Node) {
	w := &world{health: runtime.Health{RuntimeReady: true, NetworkReady: true}}
	o, _ := someNode()
	o.Labels, o.StatusPeriod, o.ReportPeriod = map[string]string{"mine": "1"}, 10*time.Second, 5*time.Minute
	if change != nil {
		change(&o)
	}

	return w, New(o, Links{API: w,
		Event: func(_, reason, _ string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, reason)
		},
		Runtime: func() (runtime.Version, runtime.Health) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return runtime.Version{Name: "containerd", Version: "v2.1.0"}, w.health
		},
		PodCIDR: func(cidr string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cidrs = append(w.cidrs, cidr)
		}})
}

// pass lets time pass in the bubble, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d)
	bubble.Wait()
}

// run registers the node and keeps its status right until the test ends.
func run(t *testing.T, n *Node) {
	t.Helper()
	n.Begin()
	if err := n.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	bubble.Wait()
}

func TestRegister(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		object *v1.Node
		fail   []error
		calls  string
		mine   string // the label of the command line afterwards
	}{
		{"a new node", nil, nil, nil, "create", "1"},
		{"a node that exists keeps the administrator's labels", nil, &v1.Node{}, nil, "create patch", ""},
		{"an API server that is away", nil, nil, []error{errors.New("away"), errors.New("away")},
			"create create create", "1"},
		{"others register", func(o *Options) { o.NoRegister = true }, &v1.Node{}, nil, "get", ""},
		{"others have not registered yet", func(o *Options) { o.NoRegister = true }, &v1.Node{}, []error{notFound()},
			"get get", ""},
	} {

		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w, n := newWorld(c.change)
				w.object, w.fail = c.object, c.fail
				n.Begin()
				if err := n.Register(t.Context()); err != nil {
					t.Fatal(err)
				}

				if got := w.take(); got != c.calls {
					t.Errorf("calls: %s, want %s", got, c.calls)
				}
				if got := n.Object().Labels["mine"]; got != c.mine {
					t.Errorf("label %q, want %q", got, c.mine)
				}
				if got := n.Object().Labels[v1.LabelHostname]; c.change == nil && got != "n" {
					t.Errorf("host name %q", got)
				}
			})
		})
	}
}

// TestRegisterEnds: the end of the kubelet ends the attempts.
func TestRegisterEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, n := newWorld(nil)
		w.fail = slices.Repeat([]error{errors.New("away")}, 100)
		n.Begin()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := n.Register(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		// 0.1 s, doubling up to 7 s: seven waits in the first 12.7 s, and one each 7 s from then on.
		if got := strings.Count(w.take(), "create"); got < 13 || got > 16 {
			t.Errorf("%d attempts in a minute", got)
		}
	})
}

// TestReports: nothing is sent while nothing changes, until a sign of life is due; a change is sent at the next tick,
// or at once when somebody asks for it.
func TestReports(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, n := newWorld(nil)
		run(t, n)
		if got := w.take(); got != "create status" {
			t.Errorf("at the start: %s", got)
		}
		pass(4*time.Minute + 55*time.Second)
		if got := w.take(); got != "" {
			t.Errorf("before it was due: %s", got)
		}
		pass(10 * time.Second)
		if got := w.take(); got != "status" {
			t.Errorf("when it was due: %s", got)
		}

		n.SetImages([]v1.ContainerImage{{Names: []string{"i"}}})
		pass(10 * time.Second)
		if got := w.take(); got != "status" || len(w.object.Status.Images) != 1 {
			t.Errorf("images: %s, %v", got, w.object.Status.Images)
		}

		w.mu.Lock()
		w.health.NetworkReady = false
		w.mu.Unlock()
		n.ReportSoon()
		bubble.Wait()
		if got := w.take(); got != "status" || condition(w.object.Status, v1.NodeReady).Status != v1.ConditionFalse {
			t.Errorf("not ready: %s, %+v", got, w.object.Status.Conditions)
		}
		if got := w.heard(); !slices.Equal(got, []string{"NodeNotReady"}) {
			t.Errorf("events: %v", got)
		}
	})
}

// TestReportFails: a report is tried five times on the newest node; a server that is away is asked again at the next
// tick; a node that was deleted is registered again.
func TestReportFails(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
	for _, c := range []struct {
		name string
		fail []error
		gone bool
		want string
	}{
		{"once", []error{conflict}, false, "status get status"},
		{"each time", []error{conflict, nil, conflict, nil, conflict, nil, conflict, nil, conflict}, false,
			"status get status get status get status get status"},
		{"the server goes away", []error{conflict, errors.New("away")}, false, "status get"},
		{"the node was deleted", nil, true, "status get create"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w, n := newWorld(nil)
				run(t, n)
				w.take()
				w.mu.Lock()
				w.fail, w.health.RuntimeReady = c.fail, false
				if c.gone {
					w.object = nil
				}
				w.mu.Unlock()

				n.ReportSoon()
				bubble.Wait()
				if got := w.take(); got != c.want {
					t.Errorf("calls: %s, want %s", got, c.want)
				}
				pass(10 * time.Second)
				if condition(w.object.Status, v1.NodeReady).Status != v1.ConditionFalse {
					t.Errorf("the report was lost: %+v", w.object.Status.Conditions)
				}
			})
		})
	}
}

// TestRebooted: an earlier boot is reported once.
func TestRebooted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, n := newWorld(nil)
		w.object = &v1.Node{Status: v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{BootID: "earlier"}}}
		run(t, n)
		if got := w.heard(); !slices.Contains(got, "Rebooted") {
			t.Errorf("events: %v", got)
		}
		w.change(func(o *v1.Node) { o.Status.NodeInfo.BootID = "another" })
		pass(time.Minute)
		if got := w.heard(); slices.Contains(got, "Rebooted") || w.object.Status.NodeInfo.BootID != "b" {
			t.Errorf("events: %v, boot id %s", got, w.object.Status.NodeInfo.BootID)
		}
	})
}

// TestWatch: a pod range is handed on when it comes and when it changes, and cordoning is an event.
func TestWatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, n := newWorld(nil)
		run(t, n)
		w.change(func(o *v1.Node) { o.Spec.PodCIDR = "10.244.1.0/24" })
		w.change(func(o *v1.Node) { o.Spec.Unschedulable = true })
		w.change(func(o *v1.Node) { o.Spec.PodCIDR = "10.244.2.0/24" })
		w.change(func(o *v1.Node) { o.Spec.Unschedulable = false })
		if want := []string{"10.244.1.0/24", "10.244.2.0/24"}; !slices.Equal(w.cidrs, want) {
			t.Errorf("pod ranges: %v, want %v", w.cidrs, want)
		}
		if got, want := w.heard(), []string{"NodeNotSchedulable", "NodeSchedulable"}; !slices.Equal(got, want) {
			t.Errorf("events: %v, want %v", got, want)
		}
		w.change(func(o *v1.Node) { o.UID, o.Spec.Unschedulable = "2", true })
		if got := w.heard(); len(got) > 0 {
			t.Errorf("another node of the same name: %v", got)
		}
	})
}

// TestPressureIsReported: a condition is reported as soon as it is set, and once.
func TestPressureIsReported(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, n := newWorld(nil)
		run(t, n)
		memory := func(pressed ...v1.NodeConditionType) v1.ConditionStatus {
			conditions := map[v1.NodeConditionType]bool{}
			for _, c := range pressed {
				conditions[c] = true
			}
			n.SetPressures(conditions)
			bubble.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			return condition(w.object.Status, v1.NodeMemoryPressure).Status
		}

		for range 2 {
			if got := memory(v1.NodeMemoryPressure); got != v1.ConditionTrue || !n.Pressures()[v1.NodeMemoryPressure] {
				t.Errorf("under pressure: %s", got)
			}
		}
		if got := memory(); got != v1.ConditionFalse || len(n.Pressures()) > 0 {
			t.Errorf("no longer under pressure: %s", got)
		}
		if got, want := w.heard(), []string{"NodeHasInsufficientMemory", "NodeHasSufficientMemory"}; !slices.Equal(got,
			want) {
			t.Errorf("events: %v, want %v", got, want)
		}
	})
}

// TestBeforeTheAPI: a kubelet without a cluster has a node object too, and what pods can have of it is known.
func TestBeforeTheAPI(t *testing.T) {
	_, n := newWorld(func(o *Options) { o.ExternalCloud, o.IPsGiven = true, true })
	if n.Object() != nil || n.Addresses() != nil {
		t.Errorf("before Begin: %+v", n.Object())
	}
	if got := n.Allocatable(nil); got.Memory().Value() != 1<<30-100<<20 {
		t.Errorf("allocatable: %v", got)
	}
	n.Begin()
	obj := n.Object()
	if obj.UID != "" || len(n.Addresses()) != 3 || obj.Annotations[providedIP] != "10.0.0.1,fd00::1" ||
		len(obj.Spec.Taints) != 1 || obj.Spec.Taints[0].Key != uninitialized {
		t.Errorf("after Begin: %+v", obj)
	}
	more := obj.DeepCopy()
	more.Status.Capacity["example.com/x"] = list("x", "3")["x"]
	if got := n.Allocatable(more)["example.com/x"]; got.Value() != 3 {
		t.Errorf("an extended resource: %v", got)
	}
}
