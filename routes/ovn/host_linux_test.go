package ovn

import "testing"

// TestHostRoutesOfGoneLink: ovs-vswitchd can delete an interface after the interfaces were listed and before its routes
// are. Such an interface counts as absent, and is no error.
func TestHostRoutesOfGoneLink(t *testing.T) {
	seen := Seen{Links: map[string]Link{"gone-ex": {Up: true}, "lo": {Up: true}}}
	if err := hostRoutes(&seen, "gone-ex", "lo"); err != nil {
		t.Fatal(err)
	}
	if _, there := seen.Links["gone-ex"]; there || len(seen.Links) != 1 {
		t.Errorf("the links are %+v, want lo alone", seen.Links)
	}
}
