package dra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	draHealth "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/internal/testkit/claimdriver"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/registration"
)

// claimsAPI is an API that tests fill.
type claimsAPI struct {
	mu     sync.Mutex
	claims map[string]*resourcev1.ResourceClaim
	wiped  []string
	errs   []error // of the next deletions
}

func (a *claimsAPI) put(list ...*resourcev1.ResourceClaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range list {
		a.claims[c.Name] = c
	}
}

func (a *claimsAPI) ResourceClaim(_ context.Context, _, name string) (*resourcev1.ResourceClaim, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.claims[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, name)
}

func (a *claimsAPI) DeleteResourceSlices(_ context.Context, driver string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wiped = append(a.wiped, driver)
	if len(a.errs) > 0 {
		err := a.errs[0]
		a.errs = a.errs[1:]
		return err
	}
	return nil
}

func (a *claimsAPI) sawWiped() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%q", a.wiped)
}

// bench is a Manager with drivers that serve at real sockets.
type bench struct {
	*Manager
	t     *testing.T
	dir   string
	api   *claimsAPI
	alive map[types.UID]bool

	mu    sync.Mutex
	calls []string
	woken []types.UID
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), api: &claimsAPI{claims: map[string]*resourcev1.ResourceClaim{}},
		alive: map[types.UID]bool{}}
	b.start()
	return b
}

// start makes a Manager as a kubelet that starts does. Drivers have to be registered with it.
func (b *bench) start() {
	b.t.Helper()
	m, err := New(Options{API: b.api, Dir: b.dir, Messages: true,
		Alive:   func(uid types.UID) (bool, bool) { return b.alive[uid], true },
		Changed: func(pods []types.UID) { b.mu.Lock(); defer b.mu.Unlock(); b.woken = append(b.woken, pods...) }})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(m.drivers.end)
	b.Manager = m
}

// serve starts a driver. Its devices have the claim's name as theirs, and are for the request r.
func (b *bench) serve(name string) *claimdriver.Driver {
	b.t.Helper()
	d := &claimdriver.Driver{Name: name, Beta: strings.HasPrefix(name, "old"), Asked: func(call string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, name+" "+call)
	}}
	d.Devices = func(c *api.Claim) []*api.Device {
		return []*api.Device{{PoolName: "p", DeviceName: c.Name, RequestNames: []string{"r"},
			CdiDeviceIds: []string{name + "/dev=" + c.Name}}}
	}
	if err := d.Serve(b.dir); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(d.Stop)
	b.register(d)
	return d
}

func (b *bench) register(d *claimdriver.Driver) {
	b.t.Helper()
	versions := []string{"v9.DRAPlugin", "v1.DRAPlugin", "v1beta1.DRAPlugin"}
	if d.Beta {
		versions = versions[2:]
	}
	p := registration.Plugin{Type: registration.DRAPlugin, Name: d.Name, Endpoint: claimdriver.Socket(b.dir, d.Name),
		Versions: versions}
	if err := b.Drivers().Register(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
}

// expect compares the calls of drivers since the last time.
func (b *bench) expect(title string, want ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.calls, want) {
		b.t.Errorf("%s: drivers were asked %q, want %q", title, b.calls, want)
	}
	b.calls = nil
}

func (b *bench) fails(title string, err error, want string) {
	b.t.Helper()
	if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
		b.t.Errorf("%s: %v, want %q", title, err, want)
	}
}

func (b *bench) cdi(p *v1.Pod) string {
	b.t.Helper()
	names, err := b.CDI(p, &p.Spec.Containers[0])
	if err != nil {
		return err.Error()
	}
	return strings.Join(names, " ")
}

// TestClaimsOfPods: claims are prepared once, also for several pods and by two drivers of either version, and given
// back after the last pod, although a kubelet started in between and the claims are gone.
func TestClaimsOfPods(t *testing.T) {
	b := newBench(t)
	b.serve("new")
	b.serve("old")
	first, second := uses(podWith("1", "a=x", "b=y"), "a", "b/r"), uses(podWith("2", "a=x"), "a")
	b.api.put(allocated("x", "1 2", "new", "old"), allocated("y", "1", "new"))

	b.fails("prepare", b.Prepare(t.Context(), first), "")
	b.expect("first pod", "new prepare x y", "old prepare x")
	b.fails("again", b.Prepare(t.Context(), first), "")
	b.fails("second pod", b.Prepare(t.Context(), second), "")
	b.expect("nothing new")
	if got, want := b.cdi(first), "new/dev=x old/dev=x new/dev=y"; got != want {
		t.Errorf("the first pod gets %s, want %s", got, want)
	}
	if got := fmt.Sprint(b.table.counts()); got != "map[<any>:2 new:2 old:1]" {
		t.Errorf("prepared are %s", got)
	}

	b.drivers.end()
	b.start()
	b.serveAgain("new", "old")
	b.alive["1"], b.alive["2"] = true, true
	b.sweep(t.Context())
	b.expect("all pods are alive")
	if got, want := b.cdi(second), "new/dev=x old/dev=x"; got != want {
		t.Errorf("after a restart the second pod gets %s, want %s", got, want)
	}
	b.fails("prepare after a restart", b.Prepare(t.Context(), second), "")
	b.expect("a kubelet that starts asks again, the machine may have booted", "new prepare x", "old prepare x")
	if got, want := b.cdi(second), "new/dev=x old/dev=x"; got != want {
		t.Errorf("prepared twice it gets %s, want %s", got, want)
	}
	if held := b.Held(second, &second.Spec.Containers[0]); len(held) != 1 || len(held[0].Devices) != 2 {
		t.Errorf("prepared twice it has %v", held)
	}

	b.api.claims = map[string]*resourcev1.ResourceClaim{}
	delete(b.alive, "1")
	b.sweep(t.Context())
	b.expect("the first pod is gone, and y with it", "new unprepare y")
	b.fails("the second pod", b.Unprepare(t.Context(), "2"), "")
	b.expect("x has no pods", "new unprepare x", "old unprepare x")
	b.fails("again", b.Unprepare(t.Context(), "2"), "")
	b.fails("of a pod without claims", b.Unprepare(t.Context(), "3"), "")
	b.expect("nothing is left")
	if got, want := b.cdi(second),
		"unable to get claim info for ResourceClaim x in namespace ns"; !strings.HasPrefix(got, want) {
		t.Errorf("after that the second pod gets %s", got)
	}
	b.drivers.end()
	b.start()
	if len(b.table) > 0 {
		t.Errorf("the file still has %v", b.table)
	}
}

// serveAgain registers drivers that serve already.
func (b *bench) serveAgain(names ...string) {
	for _, name := range names {
		b.register(&claimdriver.Driver{Name: name, Beta: strings.HasPrefix(name, "old")})
	}
}

// TestClaimFails: each way in which a claim cannot be prepared or given back, and that it works afterwards.
func TestClaimFails(t *testing.T) {
	b := newBench(t)
	p := uses(podWith("1", "a=x"), "a")
	b.fails("no claim", b.Prepare(t.Context(), p),
		`prepare dynamic resources: fetch ResourceClaim x: resourceclaims "x" not found`)
	b.api.put(allocated("x", "2", "gpu"))
	b.fails("another's", b.Prepare(t.Context(), p), "pod pod-1 (1) is not allowed to use ResourceClaim x (uid-x)")
	b.api.put(allocated("x", "1", "gpu"))
	b.fails("no driver", b.Prepare(t.Context(), p), "prepare dynamic resources: DRA driver gpu is not registered")
	b.fails("what was not begun", b.Unprepare(t.Context(), "1"), "")
	if _, err := os.Stat(b.file()); err == nil || len(b.table) > 0 {
		t.Errorf("a pod that could not begin is written down: %v", b.table)
	}

	d := b.serve("gpu")
	d.Fail("no power")
	b.fails("refused", b.Prepare(t.Context(), p), "NodePrepareResources failed for ResourceClaim x: no power")
	d.Fail("")
	d.Silent(true)
	b.fails("left out", b.Prepare(t.Context(), p), "NodePrepareResources skipped 1 ResourceClaims")
	d.Silent(false)
	b.fails("at last", b.Prepare(t.Context(), p), "")
	b.expect("each time", "gpu prepare x", "gpu prepare x", "gpu prepare x")

	other := podWith("2", "a=x")
	again := allocated("x", "2", "gpu")
	again.UID = "another"
	b.api.put(again)
	b.fails("a claim of the same name", b.Prepare(t.Context(), other),
		"old ResourceClaim with same name x and different UID uid-x still exists")

	d.Fail("busy")
	b.fails("refused", b.Unprepare(t.Context(), "1"),
		"unprepare dynamic resources: NodeUnprepareResources failed for ResourceClaim x: busy")
	d.Fail("")
	d.Silent(true)
	b.fails("left out", b.Unprepare(t.Context(), "1"), "NodeUnprepareResources skipped 1 ResourceClaims")
	d.Silent(false)
	b.Drivers().Deregister(t.Context(), registration.Plugin{Name: "gpu", Endpoint: claimdriver.Socket(b.dir, "gpu")})
	b.fails("no driver", b.Unprepare(t.Context(), "1"), "DRA driver gpu is not registered")
	b.register(d)
	b.fails("at last", b.Unprepare(t.Context(), "1"), "")
	b.fails("the next claim of that name", b.Prepare(t.Context(), other), "")

	if err := os.WriteFile(filepath.Join(b.dir, fileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Options{API: b.api, Dir: b.dir})
	b.fails("a broken file", err, "drain the node, and remove the file")
	err = b.Drivers().Register(t.Context(), registration.Plugin{Name: "x", Endpoint: "/e", Versions: []string{"1.0.0"}})
	b.fails("a driver of another time", err,
		`none of services supported by the plugin (["1.0.0"]) are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])`)
}

// TestHealthOfClaims: what a driver says of a device is shown for the containers that have it, and wakes their pods.
func TestHealthOfClaims(t *testing.T) {
	b := newBench(t)
	d := b.serve("gpu")
	p := uses(podWith("1", "a=x"), "a/r")
	b.api.put(allocated("x", "1", "gpu"))
	b.fails("prepare", b.Prepare(t.Context(), p), "")
	shown := func() string {
		out := ""
		for _, s := range b.Health(p)["app"] {
			for _, r := range s.Resources {
				out += fmt.Sprint(s.Name, " ", r.ResourceID, " ", r.Health)
				if r.Message != nil {
					out += " " + *r.Message
				}
			}
		}
		return out
	}

	if got, want := shown(), "claim:a/r gpu/dev=x Unknown"; got != want {
		t.Errorf("before the driver says anything: %s, want %s", got, want)
	}
	d.Tell(claimdriver.Health("p", "x", true, ""), claimdriver.Health("p", "z", true, ""))
	wait.True(t, 20*time.Second, "the device to be healthy",
		func() bool { return shown() == "claim:a/r gpu/dev=x Healthy" })
	long := strings.Repeat("hot", 600)
	d.Tell(claimdriver.Health("p", "x", false, long))
	wait.True(t, 20*time.Second, "the device to be ill",
		func() bool { return shown() == "claim:a/r gpu/dev=x Unhealthy "+long[:1021]+"..." })
	b.mu.Lock()
	if got := fmt.Sprint(b.woken); got != "[1 1]" {
		t.Errorf("woken are %s", got)
	}
	b.mu.Unlock()
	d.Stop()
	wait.True(t, 20*time.Second, "nothing to be known without the driver",
		func() bool { return shown() == "claim:a/r gpu/dev=x Unknown" })
}

// TestHealthPasses: what a driver said counts for its time only.
func TestHealthPasses(t *testing.T) {
	now := time.Now()
	h, device := health{}, Device{Driver: "d", Pool: "p", Name: "x"}
	short := claimdriver.Health("p", "x", true, "")
	short.HealthCheckTimeoutSeconds = 5
	if got := fmt.Sprint(h.take("d", list(short, claimdriver.Health("p", "y", true, "")),
		now)); got != "map[{p x}:true {p y}:true]" {
		t.Errorf("new: %s", got)
	}
	if got := fmt.Sprint(h.take("d", list(short), now.Add(time.Second))); got != "map[{p x}:false]" {
		t.Errorf("the same: %s", got)
	}
	for after, want := range map[time.Duration]v1.ResourceHealthStatus{6 * time.Second: v1.ResourceHealthStatusHealthy,
		7 * time.Second: v1.ResourceHealthStatusUnknown} {
		if got := h.of(device, now.Add(after)).state; got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
	if got := fmt.Sprint(h.take("d", list(short),
		now.Add(healthTimeout+time.Second))); got != "map[{p x}:false {p y}:true]" {
		t.Errorf("one is no longer told: %s", got)
	}
}

// TestSlicesOfDriversAway: the ResourceSlices of a driver are deleted when no instance of it was connected for half a
// minute, those of one that comes back in time are not; at the start all are, until that succeeds.
func TestSlicesOfDriversAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := &claimsAPI{errs: []error{errors.New("away"), errors.New("away")}}
		r := newDrivers(&Manager{o: Options{API: a}})
		ctx, stop := context.WithCancel(t.Context())
		defer bubble.Wait()
		defer stop()
		early := &driver{name: "early"}
		r.byName["early"] = []*driver{early}
		r.begin(ctx)
		is := func(want string) {
			t.Helper()
			bubble.Wait()
			if got := a.sawWiped(); got != want {
				t.Errorf("deleted were those of %s, want %s", got, want)
			}
		}

		time.Sleep(10 * time.Second)
		is(`["" "" ""]`)
		r.set(early, true)
		time.Sleep(time.Minute)
		is(`["" "" ""]`)
		r.set(early, false)
		time.Sleep(wipeDelay - time.Second)
		newer := &driver{name: "early"}
		r.mu.Lock()
		r.byName["early"] = append(r.byName["early"], newer)
		r.mu.Unlock()
		r.set(newer, true)
		if got, _ := r.get("early"); got != newer {
			t.Error("the instance that is connected is not the one that is called")
		}
		time.Sleep(time.Minute)
		is(`["" "" ""]`)
		r.set(newer, false)
		r.set(newer, false)
		time.Sleep(time.Minute)
		is(`["" "" "" "early"]`)
	})
}

func list(l ...*draHealth.DeviceHealth) []*draHealth.DeviceHealth { return l }
