package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake is a machine of three services. Its state is all that outlives a power failure.
type fake struct {
	is       map[string]string // version by part
	starts   map[string]int
	staged   []string
	lives    int // signs of life
	silent   bool
	notReady bool // with the new version
	sick     string
	restarts string
	forgot   []string
	saved    string // the journal as it is on the disk
}

var names = []string{"porthole-routes", "kube-proxy", "kubelet"}

func newFake() *fake {
	return &fake{is: map[string]string{"porthole-routes": "v1", "kube-proxy": "v1", "kubelet": "v1"},
		starts: map[string]int{}}
}

func parts(from, to string) (list []Part) {
	for _, n := range names {
		list = append(list, Part{Name: n, Old: json.RawMessage(`"` + from + `"`), New: json.RawMessage(`"` + to + `"`)})
	}
	return list
}

func exchange(from, to string, force bool) Exchange {
	return Exchange{From: from, To: to, Parts: parts(from, to), Force: force}
}

func (f *fake) Stage(context.Context) error { f.staged = append(f.staged, "x"); return nil }

func (f *fake) Switch(_ context.Context, part string, state json.RawMessage) error {
	if version := strings.Trim(string(state), `"`); f.is[part] != version {
		f.is[part] = version
		f.starts[part]++
	}
	return nil
}

func (f *fake) Healthy(_ context.Context, part string, state json.RawMessage) (string, error) {
	version := strings.Trim(string(state), `"`)
	if f.is[part] != version {
		return "", fmt.Errorf("it is of %s", f.is[part])
	}
	if f.sick == part && version != "v1" {
		return "", errors.New("exit code 1")
	}
	if f.restarts == part && version != "v1" {
		f.starts[part]++
	}
	return fmt.Sprint(f.starts[part]), nil
}

func (f *fake) Ready(context.Context) (string, error) {
	if f.notReady && f.is["kubelet"] != "v1" {
		return "", errors.New("container runtime network not ready")
	}
	if !f.silent {
		f.lives++
	}
	return fmt.Sprint(f.lives), nil
}

func (f *fake) Forget(_ context.Context, version string) error {
	f.forgot = append(f.forgot, version)
	return nil
}

// runner has a gate that is short, and a clock of its own.
func (f *fake) runner(point func(string)) *Runner {
	looks := 0
	return &Runner{Machine: f, Gate: time.Second, Soak: time.Second, Point: point, Say: func(string, ...any) {},
		Save: func(j *Journal) error {
			text, err := j.Text()
			f.saved = string(text)
			return err
		},
		Wait: func(ctx context.Context) error {
			if looks++; looks%5 == 0 {
				return context.DeadlineExceeded
			}
			return ctx.Err()
		}}
}

func (f *fake) journal(t *testing.T) *Journal {
	t.Helper()
	if f.saved == "" {
		return nil
	}
	j, err := ParseJournal([]byte(f.saved))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// whole returns the version that all parts have, or what each has.
func (f *fake) whole() string {
	if f.is[names[0]] == f.is[names[1]] && f.is[names[1]] == f.is[names[2]] {
		return f.is[names[0]]
	}
	return fmt.Sprint(f.is)
}

func TestUpgrade(t *testing.T) {
	f := newFake()
	if err := f.runner(nil).Run(t.Context(), nil, exchange("v1", "v2", false)); err != nil {
		t.Fatal(err)
	}
	j := f.journal(t)
	if f.whole() != "v2" || j.Phase != Committed || j.Active() != "v2" || len(f.forgot) > 0 ||
		f.starts["kubelet"] != 1 {
		t.Errorf("the machine has %s, journal %+v, forgotten %v", f.whole(), j, f.forgot)
	}

	// The next one removes what is older than the one before.
	if err := f.runner(nil).Run(t.Context(), j, exchange("v2", "v3", false)); err != nil {
		t.Fatal(err)
	}
	if f.whole() != "v3" || !slices.Equal(f.forgot, []string{"v1"}) {
		t.Errorf("the machine has %s, forgotten %v", f.whole(), f.forgot)
	}
}

// TestGoesBack: a version that is not healthy in any way is taken back, and is refused afterwards.
func TestGoesBack(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*fake)
		text  string
	}{
		"a service ends": {func(f *fake) { f.sick = "kube-proxy" },
			"kube-proxy is not healthy after 1s: exit code 1"},
		"the last ends": {func(f *fake) { f.sick = "kubelet" }, "kubelet is not healthy"},
		"never Ready": {func(f *fake) { f.notReady = true },
			"the node is not Ready after 1s: container runtime network not ready"},
		"ends again and again": {func(f *fake) { f.restarts = "porthole-routes" },
			"porthole-routes ended, and was started again"},
		"no sign of life": {func(f *fake) { f.silent = true }, "the kubelet has given no sign of life since"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			c.spoil(f)
			err := f.runner(nil).Run(t.Context(), nil, exchange("v1", "v2", false))
			j := f.journal(t)
			if !errors.Is(err, ErrWentBack) || !strings.Contains(err.Error(), c.text) || f.whole() != "v1" ||
				j.Phase != WentBack || j.Failed["v2"] == "" {
				t.Errorf("%v; the machine has %s, journal %+v", err, f.whole(), j)
			}

			*f = *newFake()
			r := f.runner(nil)
			if err := r.Run(t.Context(), j, exchange("v1", "v2", false)); !errors.Is(err, ErrRefused) ||
				len(f.staged) > 0 {
				t.Errorf("again: %v, staged %v", err, f.staged)
			}
			if err := r.Run(t.Context(), j, exchange("v1", "v2", true)); err != nil || f.whole() != "v2" {
				t.Errorf("with force: %v, the machine has %s", err, f.whole())
			}
		})
	}
}

// TestRefused: nothing is begun on a machine that is not healthy before.
func TestRefused(t *testing.T) {
	f := newFake()
	f.is["kubelet"] = "v0"
	if err := f.runner(nil).Run(t.Context(), nil, exchange("v1", "v2", false)); !errors.Is(err, ErrRefused) ||
		f.saved != "" {
		t.Errorf("%v, journal %s", err, f.saved)
	}
}

// killed ends a run, as a power failure does.
type killed string

// TestKilled: the process is killed before and after each act, forwards and on the way back. Going back afterwards, as
// often as that is killed too, ends in one whole version.
func TestKilled(t *testing.T) {
	var points []string
	probe := newFake()
	probe.sick = "kubelet"
	// goes back
	_ = probe.runner(func(p string) { points = append(points, p) }).Run(t.Context(), nil, exchange("v1", "v2", false))
	probe = newFake()
	_ = probe.runner(func(p string) { points = append(points, p) }).Run(t.Context(), nil, exchange("v1", "v2", false))
	slices.Sort(points)
	if points = slices.Compact(points); len(points) < 14 {
		t.Fatalf("points %v", points)
	}

	die := func(at string, what func(point func(string))) (died bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, died = r.(killed); !died {
					panic(r)
				}
			}
		}()
		what(func(p string) {
			if p == at {
				panic(killed(p))
			}
		})
		return false
	}
	for _, at := range points {
		f := newFake()
		if strings.HasPrefix(at, "back/") {
			f.sick = "kubelet"
		}
		if !die(at, func(point func(string)) {
			_ = f.runner(point).Run(t.Context(), nil, exchange("v1", "v2", false)) // it does not return
		}) {
			t.Errorf("%s was not reached", at)
		}
		if j := f.journal(t); !j.Interrupted() {
			t.Errorf("%s: the journal says %s", at, j.Phase)
		}

		for _, second := range append(slices.Clone(points), "") { // the one who goes back is killed too
			die(second, func(point func(string)) {
				if err := f.runner(point).Back(t.Context(), f.journal(t), "interrupted"); err != nil {
					t.Errorf("%s, %s: %v", at, second, err)
				}
			})
		}
		if j := f.journal(t); f.whole() != "v1" || j.Phase != WentBack {
			t.Errorf("killed at %s: the machine has %s, the journal says %s", at, f.whole(), j.Phase)
		}
	}
}
