package component

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
)

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		list []Component
		want string // the plan, or the end of the error
	}{
		{"nothing", nil, ""},
		{"as listed", []Component{{Name: "a"}, {Name: "b"}, {Name: "c"}}, "a\nb\nc\n"},
		{"needs come first", []Component{{Name: "a", Needs: []string{"c"}}, {Name: "b"},
			{Name: "c", Needs: []string{"b"}}, {Name: "d"}},
			"b\nc: needs b\na: needs c\nd\n"},
		{"a name twice", []Component{{Name: "a"}, {Name: "a"}}, `the name "a" is empty or used twice`},
		{"no name", []Component{{}}, `the name "" is empty or used twice`},
		{"an unknown need", []Component{{Name: "a", Needs: []string{"b"}}}, "a needs b, which is not in the list"},
		{"itself", []Component{{Name: "a", Needs: []string{"a"}}}, "in a circle: a > a"},
		{"a circle beside others",
			[]Component{{Name: "x"}, {Name: "d", Needs: []string{"a"}}, {Name: "a", Needs: []string{"x", "b"}},
				{Name: "b", Needs: []string{"c"}}, {Name: "c", Needs: []string{"a"}}}, "in a circle: a > b > c > a"},
	} {
		p, err := Order(c.list)
		if got := p.String(); err == nil && got != c.want || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// diary notes what happens to components.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// of returns a component whose functions note that they were called.
func (d *diary) of(name string, needs ...string) Component {
	return Component{Name: name, Needs: needs,
		Start: func(context.Context) error { d.note("start " + name); return nil },
		Ready: func(context.Context) error { d.note("ready " + name); return nil },
		Run:   func(ctx context.Context) error { <-ctx.Done(); d.note("end " + name); return ctx.Err() },
		Stop:  func(context.Context) { d.note("stop " + name) }}
}

var errTest = errors.New("it is broken")

// TestRun: what starts, in which order, and what is stopped, when nothing goes wrong and when something does.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(b *Component) // of the second of three
		want  string             // what happened
		err   error
		took  time.Duration // fake; the program is told to end after a minute
	}{
		{"nothing goes wrong", func(*Component) {},
			"start a, ready a, start b, ready b, start c, ready c, end c, stop c, end b, stop b, end a, stop a", nil,
			time.Minute},
		{"it cannot start", func(b *Component) { b.Start = func(context.Context) error { return errTest } },
			"start a, ready a, end a, stop a", errTest, 0},
		{"it is not ready in time", func(b *Component) {
			b.Ready, b.ReadyWithin = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 10*time.Second
		}, "start a, ready a, start b, end b, stop b, end a, stop a", context.DeadlineExceeded, 10 * time.Second},
		{"it is never ready", func(b *Component) {
			b.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		},
			"start a, ready a, start b, end b, stop b, end a, stop a", context.Canceled, time.Minute},
		{"it hangs in its start",
			func(b *Component) { b.Start = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } },
			"start a, ready a, end a, stop a", context.Canceled, time.Minute},
		{"it fails later", func(b *Component) {
			b.Run = func(context.Context) error { time.Sleep(time.Second); return errTest }
		},
			"start a, ready a, start b, ready b, start c, ready c, end c, stop c, stop b, end a, stop a", errTest,
			time.Second},
		{"it fails while it is waited for", func(b *Component) {
			b.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			b.Run = func(context.Context) error { time.Sleep(time.Second); return errTest }
		}, "start a, ready a, start b, stop b, end a, stop a", errTest, time.Second},
		{"it has done its work", func(b *Component) { b.Run = func(context.Context) error { return nil } },
			"start a, ready a, start b, ready b, start c, ready c, end c, stop c, stop b, end a, stop a", nil,
			time.Minute},
		{"it cannot clean up", func(b *Component) {
			b.Run = func(ctx context.Context) error { <-ctx.Done(); return errTest }
		}, "start a, ready a, start b, ready b, start c, ready c, end c, stop c, stop b, end a, stop a", errTest,
			time.Minute},
		{"it does not stop", func(b *Component) {
			b.Stop, b.StopWithin = func(ctx context.Context) { time.Sleep(time.Hour) }, 3*time.Second
		},
			"start a, ready a, start b, ready b, start c, ready c, end c, stop c, end b, end a, stop a", nil,
			time.Minute + 3*time.Second},
		{"it does not end", func(b *Component) {
			b.Run = func(context.Context) error { time.Sleep(time.Hour); return nil }
		},
			"start a, ready a, start b, ready b, start c, ready c, end c, stop c, end a, stop a", nil,
			time.Minute + DefaultStop},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				d := &diary{}
				list := []Component{d.of("c", "b"), d.of("a"), d.of("b", "a")}
				c.fault(&list[2])
				p, err := Order(list)
				if err != nil {
					t.Fatal(err)
				}

				began := time.Now()
				err = p.Run(ctx)
				took := time.Since(began)
				if got := strings.Join(d.all(), ", "); got != c.want || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("%s\nwant %s\nerror %v, want %v; took %v, want %v", got, c.want, err, c.err, took, c.took)
				}
				if errors.Is(err, context.DeadlineExceeded) &&
					!strings.Contains(err.Error(), "waiting 10s for b to be ready") {
					t.Errorf("the error does not say what was waited for: %v", err)
				}
				time.Sleep(2 * time.Hour) // until what hangs has ended
			})
		})
	}
}

// TestCause: a component that starts is told why the program ends.
func TestCause(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		var cause error
		p, _ := Order([]Component{{Name: "a", Start: func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		}}})
		time.AfterFunc(time.Second, func() { end(errTest) })
		if err := p.Run(ctx); !errors.Is(err, errTest) || !errors.Is(cause, errTest) {
			t.Errorf("returned %v; the cause was %v", err, cause)
		}
	})
}
