package cluster

import (
	"strings"
	"testing"
)

func TestNetworkRefused(t *testing.T) {
	for network, want := range map[string]string{"ipip": "Windows has no IP-in-IP", "weave": "Weave ended", "kubenet": "kubenet is no CNI plugin", "vpn": "is not known"} {
		c := DefaultConfig()
		c.Network = network
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--network %s: %v, want %q", network, err, want)
		}
	}
}
