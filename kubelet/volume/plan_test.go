package volume

import "testing"

func TestPlanUse(t *testing.T) {
	for _, c := range []struct {
		name string
		w    wish
		o    observed
		want string
	}{
		{"new", wish{stages: true}, observed{},
			"note the use, note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"attached", wish{attach: true, stages: true}, observed{},
			"note the use, wait for the attachment, note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"second pod", wish{attach: true, stages: true}, observed{staged: done, others: true},
			"note the use, wait for the attachment, note the publishing, publish, note that it is published"},
		{"no staging", wish{owner: true}, observed{},
			"note the use, note the publishing, publish, give it to the group, note that it is published"},
		{"right", wish{attach: true, stages: true, owner: true, size: 5},
			observed{used: done, staged: done, there: true, size: 5}, "nothing to do"},
		{"killed while staging", wish{stages: true}, observed{used: awaited, staged: begun},
			"note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"killed while publishing", wish{stages: true}, observed{used: begun, staged: done, there: true},
			"note the publishing, publish, note that it is published"},
		{"booted", wish{stages: true}, observed{used: begun, staged: begun},
			"note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"unmounted by somebody", wish{stages: true}, observed{used: done, staged: done},
			"note the publishing, publish, note that it is published"},

		{"again", wish{stages: true, again: true}, observed{used: done, staged: done, there: true}, "publish"},
		{"grown", wish{stages: true, size: 9}, observed{used: done, staged: done, there: true, size: 5},
			"expand, note the size"},
		{"grown on another node", wish{stages: true, size: 9}, observed{used: done, staged: done, there: true, size: 9},
			"nothing to do"},
		{"the claim waits", wish{stages: true, size: 9, grow: true}, observed{used: done, staged: done, there: true},
			"expand, note the size"},
	} {
		if got := planUse(c.w, c.o).String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPlanEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		o          observed
		end, after string // after: with the use forgotten
	}{
		{"published", observed{used: done, staged: done, there: true}, "unpublish, remove the target, forget the use",
			"unstage, remove the staging folder, forget the staging"},
		{"others use it", observed{used: done, staged: done, others: true},
			"unpublish, remove the target, forget the use", "nothing to do"},
		{"never published", observed{used: awaited}, "remove the target, forget the use", "nothing to do"},
		{"killed while publishing", observed{used: begun, staged: done}, "unpublish, remove the target, forget the use",
			"unstage, remove the staging folder, forget the staging"},
		{"killed while staging", observed{used: awaited, staged: begun}, "remove the target, forget the use",
			"unstage, remove the staging folder, forget the staging"},
		{"gone", observed{}, "nothing to do", "nothing to do"},
	} {
		if got := planEnd(c.o).String(); got != c.end {
			t.Errorf("%s: got %s, want %s", c.name, got, c.end)
		}
		if got := planUnstage(c.o); c.o.used != absent && got != nil {
			t.Errorf("%s: unstaged before the use is forgotten: %s", c.name, got)
		}
		c.o.used = absent
		if got := planUnstage(c.o).String(); got != c.after {
			t.Errorf("%s: afterwards got %s, want %s", c.name, got, c.after)
		}
	}
}
