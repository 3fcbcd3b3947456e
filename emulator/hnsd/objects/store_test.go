package objects

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

	"porthole.dev/porthole/emulator/hnsd"
)

// carrierOf is a data plane that fails as a test wants.
type carrierOf struct {
	fail  error
	asked []int // how many networks each state had
}

func (c *carrierOf) Carry(_ context.Context, _, next *hnsd.State, _ hnsd.Change) error {
	if c.fail != nil {
		return c.fail
	}
	return c.All(context.Background(), next)
}

func (c *carrierOf) All(_ context.Context, state *hnsd.State) error {
	c.asked = append(c.asked, state.Count(hnsd.Network))
	return nil
}

// bench is a store, its rules, and what it told.
type bench struct {
	*Store
	t       *testing.T
	host    *hnsd.Host
	carrier carrierOf
	o       Options
	changed int
	told    []string // ids of networks that were made
}

func newBench(t *testing.T) *bench {
	t.Helper()
	profile, err := hnsd.ProfileOf(20348)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	b := &bench{t: t, host: &hnsd.Host{Profile: profile, NodeAddr: "10.99.7.21", NewID: func() string {
		n++
		return fmt.Sprintf("00000000-0000-0000-0000-%012d", n)
	}}}
	b.o = Options{Journal: filepath.Join(t.TempDir(), "state.jsonl"), Carrier: &b.carrier,
		New:     func() *hnsd.State { return hnsd.NewState(b.host.NewID()) },
		Changed: func(context.Context, *hnsd.State, *hnsd.State) { b.changed++ },
		Told: func(_ *hnsd.State, diff hnsd.Change) {
			for _, o := range diff.Put {
				b.told = append(b.told, o.ID)
			}
		}}
	b.open()
	return b
}

func (b *bench) open() {
	b.t.Helper()
	var err error
	if b.Store, err = Open(b.o); err != nil {
		b.t.Fatal(err)
	}
}

// network is the rule that makes one.
func (b *bench) network(name string) Rule {
	return func(s *hnsd.State) (*hnsd.State, error) {
		next, _, err := b.host.Create(s, hnsd.Network, "", "", hnsd.ParseDoc(
			`{"Name":"`+name+`","Type":"L2Bridge","Unknown":{"Kept":1.5},"SchemaVersion":{"Major":2}}`))
		return next, err
	}
}

func (b *bench) onDisk() string {
	b.t.Helper()
	data, err := os.ReadFile(b.o.Journal)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// TestRefused: a change that the rules, the data plane or the disk refuse changes nothing, and nobody is told.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		rule    func(*bench) Rule
		want    error
	}{
		"by the rules": {func(*bench) {}, func(b *bench) Rule {
			return func(s *hnsd.State) (*hnsd.State, error) { return b.host.Delete(s, hnsd.Network, "x") }
		}, hnsd.ErrElementNotFound},
		"by the data plane": {func(b *bench) { b.carrier.fail = errors.New("no room") },
			func(b *bench) Rule { return b.network("b") }, hnsd.ErrFailed},
		"by the disk": {func(b *bench) { b.journal.file.Close() },
			func(b *bench) Rule { return b.network("b") }, hnsd.ErrFailed},
		"no change": {func(*bench) {}, func(*bench) Rule {
			return func(s *hnsd.State) (*hnsd.State, error) { return s, nil }
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if err := b.Change(t.Context(), b.network("a")); err != nil {
				t.Fatal(err)
			}
			before, state, told, changed := b.onDisk(), b.State(), len(b.told), b.changed

			c.prepare(b)
			err := b.Change(t.Context(), c.rule(b))
			var want, got *hnsd.Error
			if errors.As(c.want, &want) != errors.As(err, &got) || want != nil && got.Code != want.Code {
				t.Errorf("%v, want %v", err, c.want)
			}
			if b.State() != state || b.onDisk() != before || len(b.told) != told || b.changed != changed {
				t.Errorf("%d networks, told %v, on disk\n%s", b.State().Count(hnsd.Network), b.told, b.onDisk())
			}
			if last := b.carrier.asked[len(b.carrier.asked)-1]; last != 1 {
				t.Errorf("the data plane was asked last for %d networks", last)
			}
		})
	}
}

// TestJournal: the next store has the objects, with fields that HNS does not know, and without what a daemon that was
// killed was writing.
func TestJournal(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a", "b"} {
		if err := b.Change(t.Context(), b.network(name)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(b.o.Journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"Put":[{"Kind":0,`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	b.open()
	list := b.State().List(hnsd.Network)
	if len(list) != 2 || b.State().Count(hnsd.Namespace) != 1 {
		t.Fatalf("%d networks", len(list))
	}
	if text := list[0].Doc.String(); !strings.Contains(text, `"Unknown":{"Kept":1.5}`) {
		t.Error(text)
	}

	if err := os.WriteFile(b.o.Journal, []byte("{\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(b.o); err == nil {
		t.Error("a journal is read of which a line makes no sense")
	}
}

// TestAlone: what a writer changes is not told, and nobody else changes objects meanwhile.
func TestAlone(t *testing.T) {
	b := newBench(t)
	err := b.Alone(func(w Writer) error {
		if b.changing.TryLock() {
			t.Error("another one may change objects")
		}
		return w.Change(t.Context(), b.network("a"))
	})
	if err != nil || len(b.told) != 0 || b.changed != 1 || b.State().Count(hnsd.Network) != 1 {
		t.Errorf("%v, told %v, %d changes", err, b.told, b.changed)
	}
}

// TestConcurrent: changes at the same moment are all made, each is told once, and reads see whole states.
func TestConcurrent(t *testing.T) {
	b := newBench(t)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 10 {
				if err := b.Change(context.Background(), b.network(fmt.Sprint(n, "-", i))); err != nil {
					t.Error(err)
				}
				if s := b.State(); s.Count(hnsd.Network) != len(s.List(hnsd.Network)) {
					t.Error("a state is read that is not whole")
				}
			}
		})
	}
	all.Wait()
	told := slices.Compact(slices.Sorted(slices.Values(b.told)))
	if n := b.State().Count(hnsd.Network); n != 80 || len(b.told) != 80 || len(told) != 80 {
		t.Errorf("%d networks, told of %d", n, len(b.told))
	}
	if again, err := Read(b.o.Journal); err != nil || again.Count(hnsd.Network) != 80 {
		t.Errorf("on disk: %v", err)
	}
}
