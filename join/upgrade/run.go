package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Runner carries an exchange out.
type Runner struct {
	Machine Machine // required
	// Save writes the journal to the disk. Required.
	Save func(*Journal) error
	// Say is told what is done, for people. Required.
	Say func(format string, args ...any)
	// Gate is how long a part may take to be healthy, and Soak how long the node may take to be Ready with all parts
	// exchanged.
	Gate, Soak time.Duration
	// Wait pauses between two looks; it returns an error when ctx ends. Required.
	Wait func(ctx context.Context) error
	// Point is called before and after each act with its name; nil for none. Tests end the process there.
	Point func(string)
}

// ErrWentBack is wrapped by the error of an exchange that was taken back: the machine is as before.
var ErrWentBack = errors.New("the node is back at the version of before")

// ErrRefused is wrapped by errors before anything was changed.
var ErrRefused = errors.New("nothing was changed")

// Exchange is what Run has to do.
type Exchange struct {
	From, To string // names of versions
	Parts    []Part // in the order in which they are exchanged
	Force    bool   // also to a version that failed before
}

// Run exchanges the parts. before is the journal of the exchange before, nil if there was none. If the new version is
// not healthy it goes back, and returns an ErrWentBack; any other error means that the machine may be of both
// versions, and Back has to be called again.
func (r *Runner) Run(ctx context.Context, before *Journal, e Exchange) error {
	if before.Interrupted() {
		return fmt.Errorf("an upgrade to %s was interrupted: %w: porthole rollback", before.To, ErrRefused)
	}
	if before != nil && before.Failed[e.To] != "" && !e.Force {
		return fmt.Errorf("version %s was tried before and went back (%s): %w: --force tries it again", e.To,
			before.Failed[e.To], ErrRefused)
	}
	for _, p := range e.Parts {
		if _, err := r.Machine.Healthy(ctx, p.Name, p.Old); err != nil {
			return fmt.Errorf("%s is not healthy before the upgrade: %w: %w", p.Name, err, ErrRefused)
		}
	}
	if _, err := r.Machine.Ready(ctx); err != nil {
		return fmt.Errorf("the node is not Ready before the upgrade: %w: %w", err, ErrRefused)
	}

	j := before.next(e.From, e.To, e.Parts)
	if err := r.Save(j); err != nil {
		return err
	}
	err := r.forward(ctx, j)
	if err == nil {
		return nil
	}
	r.Say("%s is not healthy: %v", e.To, err)
	// an interrupt of the user takes it back too
	if back := r.Back(context.WithoutCancel(ctx), j, err.Error()); back != nil {
		return errors.Join(err, fmt.Errorf("going back to %s: %w", e.From, back))
	}
	return fmt.Errorf("%w (%w)", err, ErrWentBack)
}

func (r *Runner) forward(ctx context.Context, j *Journal) error {
	r.point("stage/before")
	if err := r.Machine.Stage(ctx); err != nil {
		return fmt.Errorf("staging %s: %w", j.To, err)
	}
	r.point("stage/after")
	r.Say("programs %s are on the disk", j.To)

	instances := make([]string, len(j.Parts))
	for i := range j.Parts {
		p := &j.Parts[i]
		j.Phase, p.Begun = Switching, true
		if err := r.Save(j); err != nil {
			return err
		}
		r.point(p.Name + "/before")
		if err := r.Machine.Switch(ctx, p.Name, p.New); err != nil {
			return fmt.Errorf("switching %s: %w", p.Name, err)
		}
		r.point(p.Name + "/after")
		var err error
		if instances[i], err = r.gate(ctx, *p); err != nil {
			return err
		}
		r.Say("%s is of %s and healthy", p.Name, j.To)
	}

	j.Phase = Soaking
	if err := r.Save(j); err != nil {
		return err
	}
	r.point("soak/before")
	if err := r.soak(ctx, j, instances); err != nil {
		return err
	}
	r.point("soak/after")
	return r.commit(ctx, j)
}

// gate waits until a part is healthy.
func (r *Runner) gate(ctx context.Context, p Part) (instance string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Gate)
	defer cancel()
	for {
		if instance, err = r.Machine.Healthy(ctx, p.Name, p.New); err == nil {
			return instance, nil
		}
		if r.Wait(ctx) != nil {
			return "", fmt.Errorf("%s is not healthy after %v: %w", p.Name, r.Gate, err)
		}
	}
}

// soak waits until the node is Ready after a sign of life from the new kubelet. A part that has been started again
// since its gate has ended by itself, and will again.
func (r *Runner) soak(ctx context.Context, j *Journal, instances []string) error {
	ctx, cancel := context.WithTimeout(ctx, r.Soak)
	defer cancel()
	first := ""
	last := errors.New("the API server has not answered")
	for begun := false; ; {
		for i, p := range j.Parts {
			instance, err := r.Machine.Healthy(ctx, p.Name, p.New)
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s was healthy, and is not any more: %w", p.Name, err)
			}
			if err == nil && instance != instances[i] {
				return fmt.Errorf("%s ended, and was started again", p.Name)
			}
		}

		sign, err := r.Machine.Ready(ctx)
		switch {
		case err != nil:
			last = err
		case !begun:
			begun = true
			first = sign
			last = errors.New("the kubelet has given no sign of life since")
		case sign != first:
			return nil
		}
		if r.Wait(ctx) != nil {
			return fmt.Errorf("the node is not Ready after %v: %w", r.Soak, last)
		}
	}
}

func (r *Runner) commit(ctx context.Context, j *Journal) error {
	older := j.Older
	j.Phase, j.Older = Committed, nil
	delete(j.Failed, j.To)
	if err := r.Save(j); err != nil {
		return err
	}
	r.Say("the node is of %s", j.To)
	for _, version := range older {
		if err := r.Machine.Forget(ctx, version); err != nil { // its folder stays
			r.Say("removing the programs of %s: %v", version, err)
		}
	}
	return nil
}

// Back takes an exchange back that was begun: each part that may be of the new version becomes of the old one, the
// last first. It can be repeated, and does as much as it can.
func (r *Runner) Back(ctx context.Context, j *Journal, reason string) error {
	if j.Phase == Committed || j.Phase == WentBack {
		return nil
	}
	if j.Phase != GoingBack {
		j.Phase, j.Reason = GoingBack, reason
		if err := r.Save(j); err != nil {
			return err
		}
	}

	var failed []error
	for i := len(j.Parts) - 1; i >= 0; i-- {
		p := j.Parts[i]
		if !p.Begun {
			continue
		}
		r.point("back/" + p.Name + "/before")
		p.New = p.Old // gate compares with it
		err := r.Machine.Switch(ctx, p.Name, p.Old)
		if err == nil {
			_, err = r.gate(ctx, p)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.Name, err))
			continue
		}
		r.point("back/" + p.Name + "/after")
		r.Say("%s is of %s again", p.Name, j.From)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}

	j.Phase = WentBack
	if j.Failed == nil {
		j.Failed = map[string]string{}
	}
	j.Failed[j.To] = j.Reason
	return r.Save(j)
}

func (r *Runner) point(name string) {
	if r.Point != nil {
		r.Point(name)
	}
}
