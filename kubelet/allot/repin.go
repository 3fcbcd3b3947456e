package allot

import (
	"context"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/internal/wakeup"
)

// repin keeps the processors of running containers as they should be: what all others share changes when one gets
// processors alone.
type repin struct {
	pins    pins
	o       *Options
	changed wakeup.Signal // who has what has changed

	last map[string]string // the processors that a container got, by its id
}

func newRepin(p pins, o *Options) *repin {
	return &repin{pins: p, o: o, changed: wakeup.New(), last: map[string]string{}}
}

// run corrects until ctx ends. It does nothing where nobody gets processors alone.
func (r *repin) run(ctx context.Context) {
	if r.pins.CPUs() {
		loop.Loop{Pass: r.correct, Wake: r.changed, Period: r.o.Period}.Run(ctx)
	}
}

// correct gives each running container its processors. What failed is tried again at the next check.
func (r *repin) correct(ctx context.Context) error {
	kept := map[string]string{}
	for _, v := range r.o.Pods() {
		for name, c := range v.Containers {
			if !c.Running {
				continue
			}
			want := r.pins.Of(v.Pod.UID, name).CPUs
			if was, known := r.last[c.ID]; known && was == want || want == "" {
				kept[c.ID] = want
				continue
			}
			if err := r.o.Pin(ctx, c.ID, want); err != nil {
				klog.FromContext(ctx).Error(err, "A container does not have the processors that it should", "container",
					name,
					"pod", v.Pod.UID, "processors", want)
				continue
			}
			kept[c.ID] = want
		}
	}
	r.last = kept
	return nil
}
