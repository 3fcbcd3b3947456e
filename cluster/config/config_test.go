package config

import (
	"strings"
	"testing"
)

func TestNetworkRefused(t *testing.T) {
	for network, want := range map[string]string{"ipip": "Windows has no IP-in-IP", "weave": "Weave ended",
		"kubenet": "kubenet is no CNI plugin", "vpn": "is not known"} {
		c := Default()
		c.Network = network
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--network %s: %v, want %q", network, err, want)
		}
	}
}

// TestListen: the API server and the registry are on the address that was asked for, and on loopback otherwise.
func TestListen(t *testing.T) {
	for listen, want := range map[string]string{"": "127.0.0.1:6443", "0.0.0.0": "0.0.0.0:6443",
		"fd00::1": "[fd00::1]:6443"} {
		c := Default()
		c.Listen = listen
		if err := c.Validate(); err != nil || c.At(c.APIPort) != want {
			t.Errorf("--listen %q: %v, %s", listen, err, c.At(c.APIPort))
		}
	}
	c := Default()
	c.Listen = "everywhere"
	if err := c.Validate(); err == nil ||
		!strings.Contains(err.Error(), "--listen everywhere: must be an address of this machine, or 0.0.0.0") {
		t.Error(err)
	}
}
