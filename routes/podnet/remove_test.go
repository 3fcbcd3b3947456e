package podnet

import (
	"context"
	"errors"
	"strings"
	"testing"

	"porthole.dev/porthole/hns"
)

func TestRemove(t *testing.T) {
	for _, kind := range []string{"no network", "fits", "differs and is empty", "differs and is used"} {
		f := host(t, kind)
		other, err := f.CreateNetwork(t.Context(), hns.Network{Name: "nat", Type: "NAT"})
		if err != nil {
			t.Fatal(err)
		}
		h, before := on(f), 0
		h.Before = func(context.Context) error { before++; return nil }

		removed, err := h.Remove(t.Context())
		if err != nil || removed == (kind == "no network") || removed != (before == 1) {
			t.Errorf("%s: removed %v, %v, Before was called %d times", kind, removed, err, before)
		}
		left, err := f.Networks(t.Context())
		if err != nil || len(left) != 1 || left[0].ID != other.ID || strings.Contains(f.Dump(), "endpoint") {
			t.Errorf("%s: left is\n%s%v", kind, f.Dump(), err)
		}
		if removed, err := h.Remove(t.Context()); err != nil || removed {
			t.Errorf("%s, again: %v, %v", kind, removed, err)
		}
	}
}

// TestRemoveNeedsBefore: nothing is deleted while the host's routes cannot be saved.
func TestRemoveNeedsBefore(t *testing.T) {
	f := host(t, "fits")
	h, before := on(f), f.Dump()
	h.Before = func(context.Context) error { return errors.New("no space") }
	if removed, err := h.Remove(t.Context()); err == nil || removed || f.Dump() != before {
		t.Errorf("%v, %v:\n%s", removed, err, f.Dump())
	}
}
