package ovn

import "testing"

// TestHostRoutesOfGoneLink: an interface that ovs-vswitchd removes between the listing of interfaces and that of its
// routes is not there.
func TestHostRoutesOfGoneLink(t *testing.T) {
	seen := Seen{Links: map[string]Link{"gone-ex": {Up: true}, "lo": {Up: true}}}
	if err := hostRoutes(&seen, "gone-ex", "lo"); err != nil {
		t.Fatal(err)
	}
	if _, there := seen.Links["gone-ex"]; there || len(seen.Links) != 1 {
		t.Errorf("the links are %+v, want lo alone", seen.Links)
	}
}
