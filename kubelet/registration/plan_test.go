package registration

import (
	"fmt"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after map[string]identity
		want          string
	}{
		{"nothing", nil, nil, "[]"},
		{"new", nil, map[string]identity{"b": "1", "a": "1"}, "[new a new b]"},
		{"gone", map[string]identity{"a": "1"}, nil, "[gone a]"},
		{"same", map[string]identity{"a": "1"}, map[string]identity{"a": "1"}, "[]"},
		{"replaced", map[string]identity{"a": "1", "b": "1"}, map[string]identity{"a": "2", "b": "1"},
			"[gone a new a]"},
	} {
		if got := fmt.Sprint(plan(c.before, c.after)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	good := Plugin{Type: CSIPlugin, Name: "n", Endpoint: "/e", Versions: []string{"1.0.0"}}
	if err := check(good); err != nil {
		t.Error(err)
	}
	for want, p := range map[string]Plugin{"has no name": {Type: CSIPlugin}, "has no endpoint": {Name: "n"},
		"supports no version": {Name: "n", Endpoint: "/e"}} {
		if err := check(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}
