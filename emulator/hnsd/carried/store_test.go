package carried

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/emulator/hnsd"
)

// plane carries what it is asked for, but for objects that fail.
type plane struct {
	mu      sync.Mutex
	last    desired.State
	applies int
	fail    map[string]error // by id
	whole   error            // of everything
}

func (p *plane) Apply(_ context.Context, d desired.State) (map[string]error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applies++
	if p.whole != nil {
		return nil, p.whole
	}
	p.last = d
	errs := map[string]error{}
	for _, n := range d.Networks {
		if err := p.fail[n.ID]; err != nil {
			errs[n.ID] = err
		}
	}
	return errs, nil
}

const id = "00000000-0000-0000-0000-00000000000%d"

// states returns one state after the other, each with one network more, and the changes between them.
func states(t *testing.T, n int) (list []*hnsd.State, diffs []hnsd.Change) {
	t.Helper()
	profile, err := hnsd.ProfileOf(20348)
	if err != nil {
		t.Fatal(err)
	}
	h := &hnsd.Host{Profile: profile, NewID: func() string { return fmt.Sprintf(id, 9) }}
	list, diffs = []*hnsd.State{hnsd.NewState("").Settled()}, []hnsd.Change{{}}
	for i := range n {
		old := list[i]
		next, _, err := h.Create(old, hnsd.Network, "", fmt.Sprintf(id, i+1),
			hnsd.ParseDoc(`{"Type":"L2Bridge","SchemaVersion":{"Major":2}}`))
		if err != nil {
			t.Fatal(err)
		}
		diffs = append(diffs, next.Diff(old))
		list = append(list, next.Settled())
	}
	return list, diffs
}

func open(t *testing.T, p *plane, file string) *Store {
	t.Helper()
	s, err := Open(p, file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// has fails the test unless the data plane was asked last for that many networks.
func (p *plane) has(t *testing.T, networks int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last.Networks) != networks {
		t.Errorf("%d networks are carried, want %d", len(p.last.Networks), networks)
	}
}

// TestRefused: if what a change puts cannot be carried, the former state is carried; what fails besides is not
// complete.
func TestRefused(t *testing.T) {
	list, diffs := states(t, 2)
	p := &plane{}
	s := open(t, p, filepath.Join(t.TempDir(), "lost"))
	if err := s.Carry(t.Context(), list[0], list[1], diffs[1]); err != nil || !s.Complete() {
		t.Fatal(err, s.Complete())
	}
	p.fail = map[string]error{fmt.Sprintf(id, 2): errors.New("no room")}
	if err := s.Carry(t.Context(), list[1], list[2], diffs[2]); err == nil || !s.Complete() {
		t.Errorf("%v, complete %v", err, s.Complete())
	}
	p.has(t, 1)

	p.fail = map[string]error{fmt.Sprintf(id, 1): errors.New("no room")}
	if err := s.Carry(t.Context(), list[1], list[2], diffs[2]); err != nil || s.Complete() {
		t.Errorf("another object fails: %v, complete %v", err, s.Complete())
	}
	p.has(t, 2)
	p.fail = nil
	if err := s.All(t.Context(), list[2]); err != nil || !s.Complete() {
		t.Errorf("%v, complete %v", err, s.Complete())
	}
	before := p.applies
	if err := s.Carry(t.Context(), list[2], list[2], hnsd.Change{}); err != nil || p.applies != before {
		t.Errorf("nothing changes: %v, asked %d times", err, p.applies-before)
	}
}

// TestLost: what is lost stays so over a restart, until a change rewrites it, or all is repaired. A change that is
// refused leaves it lost.
func TestLost(t *testing.T) {
	list, diffs := states(t, 3)
	p, file := &plane{}, filepath.Join(t.TempDir(), "lost")
	s := open(t, p, file)
	first, second := fmt.Sprintf(id, 1), fmt.Sprintf(id, 2)
	if err := s.Lose(t.Context(), list[2], []string{first, second}); err != nil {
		t.Fatal(err)
	}
	p.has(t, 0)
	if err := s.Carry(t.Context(), list[2], list[3], diffs[3]); err != nil {
		t.Fatal(err)
	}
	p.has(t, 1)

	s = open(t, p, file)
	if err := s.All(t.Context(), list[3]); err != nil {
		t.Fatal(err)
	}
	p.has(t, 1)
	rewritten := hnsd.Change{Put: diffs[1].Put}
	p.whole = errors.New("the kernel is away")
	if err := s.Carry(t.Context(), list[3], list[3], rewritten); err == nil || !s.lost[first] {
		t.Errorf("%v, lost %v", err, s.lost)
	}
	p.whole = nil
	if again := open(t, p, file); !again.lost[first] || !again.lost[second] {
		t.Errorf("on disk %v", again.lost)
	}
	if err := s.Carry(t.Context(), list[3], list[3], rewritten); err != nil {
		t.Error(err)
	}
	p.has(t, 2)

	if err := s.Repair(t.Context(), list[3]); err != nil {
		t.Error(err)
	}
	p.has(t, 3)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is lost: %v", err)
	}
	s.file = filepath.Join(t.TempDir(), "absent", "lost")
	if err := s.Lose(t.Context(), list[3], []string{first}); err == nil || len(s.lost) != 0 {
		t.Errorf("a loss that cannot be kept: %v, lost %v", err, s.lost)
	}
	p.has(t, 3)
}

// TestConcurrent: losses, repairs and questions at the same moment; at the end all is carried.
func TestConcurrent(t *testing.T) {
	list, _ := states(t, 3)
	p := &plane{}
	s := open(t, p, filepath.Join(t.TempDir(), "lost"))
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			for range 20 {
				err := errors.Join(s.Lose(context.Background(), list[3], []string{fmt.Sprintf(id, n%3+1)}),
					s.Repair(context.Background(), list[3]))
				if _, e := s.Verify(context.Background(), list[3]); err != nil || e != nil {
					t.Error(err, e)
				}
				_ = s.Complete()
			}
		})
	}
	all.Wait()
	if err := s.Repair(context.Background(), list[3]); err != nil {
		t.Error(err)
	}
	p.has(t, 3)
}
