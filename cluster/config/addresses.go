package config

import (
	"net/netip"

	"porthole.dev/porthole/emulator/lab"
)

// firstWindows is the last byte of the address of win01; the other Windows nodes follow.
const firstWindows = 21

func address(last int) netip.Addr {
	b := lab.Underlay.Addr().As4()
	b[3] = byte(last)
	return netip.AddrFrom4(b)
}

// ControlPlane is the address of lin01, on which the control plane and metrics-server run.
func ControlPlane() netip.Addr { return address(11) }

// APIServer is the host and port at which nodes reach the API server: in lin01's namespace.
func APIServer() string { return ControlPlane().String() + ":6443" }

// MetricsPort is where metrics-server listens on lin01. Its default, 10250, is the kubelet's there.
const MetricsPort = 4443

// Registry is the host and port at which nodes reach the registry of images: the router.
func Registry() string { return lab.Router.String() + ":5000" }

// Domain is that of the names of services and pods.
const Domain = "cluster.local"
