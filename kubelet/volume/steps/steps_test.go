package steps

import "testing"

func TestPlanUse(t *testing.T) {
	for _, c := range []struct {
		name string
		w    Wish
		o    Observed
		want string
	}{
		{"new", Wish{Stages: true}, Observed{},
			"note the use, note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"attached", Wish{Attach: true, Stages: true}, Observed{},
			"note the use, wait for the attachment, note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"second pod", Wish{Attach: true, Stages: true}, Observed{Staged: Done, Others: true},
			"note the use, wait for the attachment, note the publishing, publish, note that it is published"},
		{"no staging", Wish{Owner: true}, Observed{},
			"note the use, note the publishing, publish, give it to the group, note that it is published"},
		{"right", Wish{Attach: true, Stages: true, Owner: true, Size: 5},
			Observed{Used: Done, Staged: Done, There: true, Size: 5}, "nothing to do"},
		{"killed while staging", Wish{Stages: true}, Observed{Used: Awaited, Staged: Begun},
			"note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"killed while publishing", Wish{Stages: true}, Observed{Used: Begun, Staged: Done, There: true},
			"note the publishing, publish, note that it is published"},
		{"booted", Wish{Stages: true}, Observed{Used: Begun, Staged: Begun},
			"note the staging, stage, note that it is staged, note the publishing, publish, note that it is published"},
		{"unmounted by somebody", Wish{Stages: true}, Observed{Used: Done, Staged: Done},
			"note the publishing, publish, note that it is published"},

		{"again", Wish{Stages: true, Again: true}, Observed{Used: Done, Staged: Done, There: true}, "publish"},
		{"grown", Wish{Stages: true, Size: 9}, Observed{Used: Done, Staged: Done, There: true, Size: 5},
			"expand, note the size"},
		{"grown on another node", Wish{Stages: true, Size: 9}, Observed{Used: Done, Staged: Done, There: true, Size: 9},
			"nothing to do"},
		{"the claim waits", Wish{Stages: true, Size: 9, Grow: true}, Observed{Used: Done, Staged: Done, There: true},
			"expand, note the size"},
	} {
		if got := ForUse(c.w, c.o).String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPlanEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		o          Observed
		end, after string // after: with the use forgotten
	}{
		{"published", Observed{Used: Done, Staged: Done, There: true}, "unpublish, remove the target, forget the use",
			"unstage, remove the staging folder, forget the staging"},
		{"others use it", Observed{Used: Done, Staged: Done, Others: true},
			"unpublish, remove the target, forget the use", "nothing to do"},
		{"never published", Observed{Used: Awaited}, "remove the target, forget the use", "nothing to do"},
		{"killed while publishing", Observed{Used: Begun, Staged: Done}, "unpublish, remove the target, forget the use",
			"unstage, remove the staging folder, forget the staging"},
		{"killed while staging", Observed{Used: Awaited, Staged: Begun}, "remove the target, forget the use",
			"unstage, remove the staging folder, forget the staging"},
		{"gone", Observed{}, "nothing to do", "nothing to do"},
	} {
		if got := ForEnd(c.o).String(); got != c.end {
			t.Errorf("%s: got %s, want %s", c.name, got, c.end)
		}
		if got := ForUnstage(c.o); c.o.Used != Absent && got != nil {
			t.Errorf("%s: unstaged before the use is forgotten: %s", c.name, got)
		}
		c.o.Used = Absent
		if got := ForUnstage(c.o).String(); got != c.after {
			t.Errorf("%s: afterwards got %s, want %s", c.name, got, c.after)
		}
	}
}
