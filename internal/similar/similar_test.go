package similar

import "testing"

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"web", "web", 0}, {"web", "", 3}, {"", "web", 3}, {"win1", "win01", 1}, {"kitten", "sitting", 3}} {
		if got := Edits(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
