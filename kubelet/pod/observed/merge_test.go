package observed

import (
	"testing"
	"time"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestMergeNeverGoesBack(t *testing.T) {
	r := &Runtime{Containers: []Container{{ID: "x", State: Exited, ExitCode: 3}}}
	out := r.Merge(&Runtime{Containers: []Container{{ID: "x", State: Running}, {ID: "y", State: Created}}})
	if out.Containers[0].State != Exited || len(out.Containers) != 2 || len(r.Containers) != 1 {
		t.Errorf("got %+v from %+v", out, r)
	}
}

func TestFullCheckForgetsWhatIsGone(t *testing.T) {
	old, young := now.Add(-time.Hour), now.Add(-time.Minute)
	r := &Runtime{Sandboxes: []Sandbox{{ID: "s", CreatedAt: old}},
		Containers: []Container{{ID: "x", State: Running, CreatedAt: old},
			{ID: "y", State: Running, CreatedAt: young}, {ID: "z", State: Exited, CreatedAt: old}}}
	out := r.Checked(&Runtime{Sandboxes: r.Sandboxes,
		Containers: []Container{{ID: "z", State: Running, CreatedAt: old}}}, now)
	if len(out.Sandboxes) != 1 || len(out.Containers) != 2 || out.Containers[0].ID != "y" ||
		out.Containers[1].State != Exited || len(r.Containers) != 3 {
		t.Errorf("got %+v", out)
	}
}

// TestGivenOld: a full check that began before a change, and ends after, does not bring back what was.
func TestGivenOld(t *testing.T) {
	read := func(memory int64, at time.Time) *Runtime {
		return &Runtime{Containers: []Container{{ID: "c1", Name: "c", State: Running,
			Given: Given{Memory: memory, At: at}}}}
	}
	r := read(1, now).Merge(read(2, now.Add(time.Second))).Merge(read(1, now))
	if got := r.Containers[0].Given.Memory; got != 2 {
		t.Errorf("it has %d, want 2", got)
	}
	if r = r.Merge(read(3, now.Add(time.Minute))); r.Containers[0].Given.Memory != 3 {
		t.Errorf("it has %+v, want 3", r.Containers[0].Given)
	}
}
