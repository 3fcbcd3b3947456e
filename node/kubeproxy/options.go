// Package kubeproxy wires a node's service proxy: it connects a mode to the API server, to the host and to the pages
// that show how it is doing.
package kubeproxy

import (
	"net/netip"
	"time"

	config "k8s.io/kube-proxy/config/v1alpha1"
)

// Version is the Kubernetes version whose flags, configuration and metrics this proxy has.
const Version = "v1.36.3"

// Modes.
const (
	Kernelspace = "kernelspace" // load balancers of HNS; Windows only
	Userspace   = "userspace"   // relays in this process
)

// Options are what the command line, the configuration file and the environment decide.
type Options struct {
	// Config is complete: defaults are filled in and flags are applied. It is shown as it is.
	Config config.KubeProxyConfiguration
	// ConfigFile is where Config was read; the proxy ends when the file no longer holds ConfigData. Empty: no file.
	ConfigFile string
	ConfigData []byte

	Mode       string // Kernelspace or Userspace
	Hostname   string // name of the node
	Kubeconfig string
	Master     string // address of the API server, in place of the kubeconfig's

	Healthz string // address of the health pages; empty: none
	Metrics string // address of /metrics, /status and /diff; empty: none

	Settle time.Duration // how long changes are collected before they are applied; 0: the mode's own
	Period time.Duration // between full checks; 0: the mode's own

	ClusterRanges    []netip.Prefix
	NodePortRanges   []netip.Prefix
	NodePortsPrimary bool // node ports on the node's primary addresses only

	// Kernelspace
	NoProbes   bool       // believe what HNS lists
	NodeAccess bool       // programs of the node reach node ports and load balancer addresses, where HNS lets them
	SourceVIP  netip.Addr // not valid: the mode chooses one
	// OverlayRelay: see kernel.RelayOptions
	OverlayRelay bool

	// StateFile remembers which addresses are ours (Userspace; empty: a file in /var/lib/kube-proxy), or in which boot
	// HNS was written (Kernelspace; empty: that of the boot record).
	StateFile string

	// Userspace
	ServiceInterface string // gets the addresses of services
}
