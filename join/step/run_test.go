package step

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// part is a step whose thing on the machine is a variable.
type part struct {
	id       string
	wanted   any
	is       any
	observed error
	failing  error
	stubborn bool // Apply does nothing
	applied  int
}

func (p *part) ID() string                             { return p.id }
func (p *part) Wanted() any                            { return p.wanted }
func (p *part) Observe(context.Context) (any, error)   { return p.is, p.observed }
func (p *part) Undo(_ context.Context, b []byte) error { p.is = nil; return p.failing }
func (p *part) Apply(context.Context) error {
	p.applied++
	if p.failing != nil {
		return p.failing
	}
	if !p.stubborn {
		p.is = p.wanted
	}
	return nil
}

// machine runs steps and keeps what was saved.
type machine struct {
	journal Journal
	saves   int
}

func (m *machine) runner(dry bool) *Runner {
	return &Runner{DryRun: dry, Journal: &m.journal, Now: func() time.Time { return time.Time{} },
		Save: func(j Journal) error { m.saves++; return nil }}
}

func newMachine() *machine { return &machine{journal: NewJournal("win07", "https://10.0.0.1:6443")} }

func TestRun(t *testing.T) {
	m := newMachine()
	file := &part{id: "file", wanted: map[string]string{"hash": "1", "mode": "0600"},
		is: map[string]string{"hash": "0", "mode": "0600"}}
	service := &part{id: "service", wanted: []string{"kubelet"}}
	right := &part{id: "right", wanted: "as it is", is: "as it is"}
	steps := []Step{file, service, right}

	dry, err := m.runner(true).Run(t.Context(), steps)
	if err != nil || m.saves != 0 || file.applied != 0 || dry[0].Result != "planned" || dry[1].Action != Create {
		t.Fatalf("dry run: %v, %d saves, %+v", err, m.saves, dry)
	}
	if got, want := dry[0].String(), "change file\n    hash 0 → 1"; got != want {
		t.Errorf("prints %q, want %q", got, want)
	}

	results, err := m.runner(false).Run(t.Context(), steps)
	if err != nil || results[0].Result != "done" || results[1].Undo != "delete" || results[0].Undo != "restore" ||
		results[2].Undo != "keep" {
		t.Fatalf("run: %v, %+v", err, results)
	}
	if len(m.journal.Steps) != 2 || !m.journal.Steps[0].Done ||
		string(m.journal.Steps[0].Before) != `{"hash":"0","mode":"0600"}` {
		t.Errorf("journal: %+v", m.journal)
	}

	saves := m.saves
	if results, err = m.runner(false).Run(t.Context(), steps); err != nil || m.saves != saves || file.applied != 1 ||
		results[0].Result != "unchanged" {
		t.Errorf("second run: %v, %d more saves, %+v", err, m.saves-saves, results)
	}

	if _, err = m.runner(false).Undo(t.Context(), steps); err != nil || file.is != nil || service.is != nil ||
		right.is == nil || len(m.journal.Steps) != 0 {
		t.Errorf("undo: %v, journal %+v", err, m.journal)
	}
}

// TestUnknownIsNotAbsent: a step that cannot be observed fails, and nothing is applied.
func TestUnknownIsNotAbsent(t *testing.T) {
	m := newMachine()
	unknown := &part{id: "unknown", wanted: "x", observed: errors.New("access is denied")}
	later := &part{id: "later", wanted: "y"}
	results, err := m.runner(false).Run(t.Context(), []Step{unknown, later})
	if err == nil || unknown.applied+later.applied != 0 || m.saves != 0 || len(results) != 1 ||
		results[0].Error != "access is denied" {
		t.Errorf("%v, %+v", err, results)
	}
}

func TestNotSettled(t *testing.T) {
	m := newMachine()
	_, err := m.runner(false).Run(t.Context(), []Step{&part{id: "s", wanted: "x", stubborn: true}})
	if !errors.Is(err, ErrNotSettled) || m.journal.Steps[0].Done {
		t.Errorf("%v, journal %+v", err, m.journal)
	}
}

// flapping is a step that waits: what it waits for is undone by others for some times.
type flapping struct {
	*part
	times int
}

func (flapping) Waits() {}
func (f *flapping) Observe(context.Context) (any, error) {
	if f.applied > 0 && f.applied <= f.times {
		return "gone again", nil
	}
	return f.is, nil
}

// TestWaits: a step that waits is waited for again if it was undone a moment later, as long as there is time.
func TestWaits(t *testing.T) {
	m := newMachine()
	s := &flapping{part: &part{id: "s", wanted: "x"}, times: 2}
	if _, err := m.runner(false).Run(t.Context(), []Step{s}); err != nil || s.applied != 3 {
		t.Errorf("%v after %d times", err, s.applied)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s = &flapping{part: &part{id: "t", wanted: "x"}, times: 2}
	if _, err := m.runner(false).Run(over, []Step{s}); !errors.Is(err, ErrNotSettled) || s.applied != 1 {
		t.Errorf("without time: %v after %d times", err, s.applied)
	}
}

// TestInterrupted: a run that ended within a step is finished by the next, which keeps what was there before the first.
func TestInterrupted(t *testing.T) {
	m := newMachine()
	s := &part{id: "s", wanted: "new", is: "old", failing: errors.New("disk full")}
	if _, err := m.runner(false).Run(t.Context(), []Step{s}); err == nil {
		t.Fatal("no error")
	}
	s.failing, s.is = nil, "half"
	if _, err := m.runner(false).Run(t.Context(), []Step{s}); err != nil {
		t.Fatal(err)
	}
	if e := m.journal.Steps; len(e) != 1 || string(e[0].Before) != `"old"` || !e[0].Done {
		t.Errorf("journal %+v", m.journal)
	}
}

// TestUndoGoesOn: a step that cannot be undone stays in the journal, the others go.
func TestUndoGoesOn(t *testing.T) {
	m := newMachine()
	first, second := &part{id: "first", wanted: 1}, &part{id: "second", wanted: 2}
	steps := []Step{first, second}
	if _, err := m.runner(false).Run(t.Context(), steps); err != nil {
		t.Fatal(err)
	}
	second.failing = errors.New("in use")
	_, err := m.runner(false).Undo(t.Context(), steps)
	if err == nil || !strings.Contains(err.Error(), "step second: in use") || first.is != nil ||
		len(m.journal.Steps) != 1 || m.journal.Steps[0].ID != "second" {
		t.Errorf("%v, %+v", err, m.journal)
	}
}

func TestJournalText(t *testing.T) {
	m := newMachine()
	if _, err := m.runner(false).Run(t.Context(), []Step{&part{id: "s", wanted: 1}}); err != nil {
		t.Fatal(err)
	}
	text, err := m.journal.Text()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseJournal(text)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := back.Text(); !bytes.Equal(again, text) {
		t.Errorf("read back:\n%s\nwritten:\n%s", again, text)
	}
	if _, err := ParseJournal([]byte(`{"kind":"Node","steps":[`)); err == nil {
		t.Error("half a journal is read")
	}
}
