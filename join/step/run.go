package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Runner carries out steps. The zero value writes no journal.
type Runner struct {
	DryRun  bool
	Journal *Journal // required unless DryRun
	// Save writes the journal to the disk. It is called before each Apply, and after it. Required unless DryRun.
	Save func(Journal) error
	// Before and After are called around each Apply and Undo that is carried out, with the step; nil for none. Tests
	// end the process there.
	Before, After func(id string)
	// Progress is called with each result; nil for nobody.
	Progress func(Result)
	// Now is the clock. Required.
	Now func() time.Time
}

// ErrNotSettled is the error of a step that was carried out and is still not as wanted.
var ErrNotSettled = errors.New("it was carried out, and is still not as wanted")

// Run carries out the steps in order and stops at the first that fails. The results of those before, and of the failed
// one, are returned in every case.
func (r *Runner) Run(ctx context.Context, steps []Step) (results []Result, err error) {
	for _, s := range steps {
		result, err := r.one(ctx, s)
		results = append(results, result)
		if r.Progress != nil {
			r.Progress(result)
		}
		if err != nil {
			return results, fmt.Errorf("step %s: %w", s.ID(), err)
		}
	}
	return results, nil
}

func (r *Runner) one(ctx context.Context, s Step) (Result, error) {
	start := r.Now()
	finish := func(op Op, result string, err error) (Result, error) {
		out := Result{Op: op, Result: result, Seconds: r.Now().Sub(start).Seconds()}
		if r.Journal != nil {
			out.Undo = r.Journal.undoOf(op.ID)
		}
		if err != nil {
			out.Result, out.Error = "failed", err.Error()
		}
		return out, err
	}

	op, err := Compare(ctx, s)
	switch {
	case err != nil:
		return finish(op, "failed", err)
	case op.Action == None:
		return finish(op, "unchanged", r.settled(op))
	case r.DryRun:
		return finish(op, "planned", nil)
	}

	r.Journal.begin(op)
	if err := r.Save(*r.Journal); err != nil {
		return finish(op, "failed", err)
	}
	call(r.Before, op.ID)
	after, err := r.apply(ctx, s)
	if err != nil {
		return finish(op, "failed", err)
	}
	if after.Action != None {
		return finish(op, "failed", fmt.Errorf("%w: %s", ErrNotSettled, after))
	}
	return finish(op, "done", r.settled(op))
}

// Waiter is a step whose Apply only waits for something that others do, which can be undone by them a moment later: it
// is waited for again until ctx ends.
type Waiter interface{ Waits() }

// Continuer is a step that the node's programs finish, also when nobody waits for them any more.
type Continuer interface{ Continues() }

// apply carries a step out, and returns what is still to be done about it.
func (r *Runner) apply(ctx context.Context, s Step) (after Op, err error) {
	_, waits := s.(Waiter)
	for {
		if err := s.Apply(ctx); err != nil {
			return after, err
		}
		call(r.After, s.ID())
		if after, err = Compare(ctx, s); err != nil || after.Action == None || !waits || ctx.Err() != nil {
			return after, err
		}
	}
}

// settled notes in the journal that a step which was begun, by this run or an earlier one, is as wanted.
func (r *Runner) settled(op Op) error {
	if r.DryRun || r.Journal == nil {
		return nil
	}
	if i := r.Journal.index(op.ID); i < 0 || r.Journal.Steps[i].Done {
		return nil
	}
	r.Journal.end(op.ID)
	return r.Save(*r.Journal)
}

func call(f func(string), id string) {
	if f != nil {
		f(id)
	}
}

// Compare observes one step and returns what has to be done about it. It changes nothing.
func Compare(ctx context.Context, s Step) (Op, error) {
	wanted, err := encode(s.Wanted())
	if err != nil {
		return Op{ID: s.ID(), Action: None}, err
	}
	value, err := s.Observe(ctx)
	if err != nil {
		return Op{ID: s.ID(), Action: None, Wanted: wanted, Observed: json.RawMessage("null")}, err
	}
	observed, err := encode(value)
	if err != nil {
		return Op{ID: s.ID(), Action: None, Wanted: wanted}, err
	}
	return Plan([]State{{ID: s.ID(), Wanted: wanted, Observed: observed}})[0], nil
}

// Undo takes back, in reverse order, the steps that the journal names. It goes on after a step that fails: all else is
// undone, and the errors come back together. Steps that were undone leave the journal.
func (r *Runner) Undo(ctx context.Context, steps []Step) (results []Result, err error) {
	var failed []error
	for _, s := range slices.Backward(steps) {
		i := r.Journal.index(s.ID())
		if i < 0 {
			continue
		}

		start, entry := r.Now(), r.Journal.Steps[i]
		out := Result{Op: Op{ID: s.ID(), Observed: json.RawMessage("null"), Wanted: orNull(entry.Before),
			Action: Delete}, Result: "done", Undo: r.Journal.undoOf(s.ID())}
		call(r.Before, s.ID())
		err := s.Undo(ctx, orNull(entry.Before))
		if err == nil {
			call(r.After, s.ID())
			r.Journal.Steps = slices.Delete(r.Journal.Steps, i, i+1)
			err = r.Save(*r.Journal)
		}

		out.Seconds = r.Now().Sub(start).Seconds()
		if err != nil {
			out.Result, out.Error = "failed", err.Error()
			failed = append(failed, fmt.Errorf("step %s: %w", s.ID(), err))
		}
		results = append(results, out)
		if r.Progress != nil {
			r.Progress(out)
		}
	}
	return results, errors.Join(failed...)
}
