package podnet

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
)

// TestFitBridge: the bridge of another range stays, with an error that says so, while a pod is attached; without one
// it is removed. One of the node's ranges stays.
// Rows 1.30, 1.37.
func TestFitBridge(t *testing.T) {
	node, pod := netspace.New(t, "node"), netspace.New(t, "pod")
	prefix := netip.MustParsePrefix
	o := Options{PodCIDR: prefix("10.244.1.0/24"), Second: Second{PodCIDR: prefix("fd00:10:244:1::/64")}}
	fit := func() (changed bool, err error) {
		node.Do(func() error { changed, err = FitBridge(o); return nil })
		return changed, err
	}

	if changed, err := fit(); changed || err != nil {
		t.Errorf("without a bridge: %t, %v", changed, err)
	}
	node.Connect("v1", pod, "eth0")
	node.Bridge(Bridge, "v1")
	node.Address(Bridge, "10.244.1.1/24", "fd00:10:244:1::1/64")
	if changed, err := fit(); changed || err != nil {
		t.Errorf("the right bridge: %t, %v", changed, err)
	}

	o.PodCIDR = prefix("10.244.2.0/24")
	changed, err := fit()
	var inUse *RangeInUseError
	if changed || !errors.As(err, &inUse) ||
		!strings.Contains(err.Error(),
			"is 10.244.2.0/24 and fd00:10:244:1::/64 now, but bridge porthole0 has 10.244.1.1/24 and 1 pods are attached") {
		t.Errorf("with a pod: %t, %v", changed, err)
	}
	node.Do(func() error { return platform.DeleteLink("v1") })
	if changed, err := fit(); !changed || err != nil {
		t.Errorf("without a pod: %t, %v", changed, err)
	}
	if changed, err := fit(); changed || err != nil {
		t.Errorf("once more: %t, %v", changed, err)
	}
}
