package vxlan

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Config is what all nodes of an overlay have in common.
type Config struct {
	VNI  uint32 // number of the virtual network, MinVNI to MaxVNI
	Port uint16 // UDP port of the encapsulated packets, always Port
	// Hybrid joins the hybrid overlay of OVN-Kubernetes in place of an overlay like flannel's. Its VNI is HybridVNI.
	Hybrid bool
}

// What Windows allows: HNS takes no VNI below 4096 for an overlay network, and its virtual switch sends to UDP port
// 4789, the one assigned by IANA (flannel's Documentation/backends.md). Nodes with Linux alone could use others, but
// no Windows node could join them.
const (
	MinVNI = 4096
	MaxVNI = 1<<24 - 1 // 24 bits on the wire (RFC 7348, section 5)
	Port   = 4789
)

// flannel's defaults on Linux, which no Windows node can use.
const (
	flannelVNI  = 1
	flannelPort = 8472
)

// Default is the configuration of a cluster for which none is chosen.
var Default = Config{VNI: MinVNI, Port: Port}

// Overhead is how many bytes smaller than the underlay's MTU that of pods must be: the outer IPv4, UDP and VXLAN
// headers, and the inner Ethernet header.
const Overhead = 20 + 8 + 8 + 14

// Validate returns an error that gives the reason if Windows nodes could not use the configuration.
func (c Config) Validate() error {
	switch {
	case c.VNI < MinVNI:
		return fmt.Errorf(
			"VNI %d: Windows takes 4096 and above only (flannel's default on Linux is 1: set \"VNI\": 4096 in its net-conf.json)", c.VNI)
	case c.VNI > MaxVNI:
		return fmt.Errorf("VNI %d: a VNI has 24 bits, so that %d is the greatest", c.VNI, MaxVNI)
	case c.Hybrid && c.VNI != HybridVNI:
		return fmt.Errorf("VNI %d: the hybrid overlay of OVN-Kubernetes has %d", c.VNI, HybridVNI)
	case c.Port != Port:
		return fmt.Errorf(
			"UDP port %d: Windows sends VXLAN to port 4789 only (flannel's default on Linux is 8472: set \"Port\": 4789 in its net-conf.json)", c.Port)
	}
	return nil
}

// Device returns the name of the VXLAN device on Linux, which is flannel's.
func (c Config) Device() string { return fmt.Sprintf("flannel.%d", c.VNI) }

// NetConf is flannel's configuration, the file net-conf.json in its ConfigMap. Zero values are not written.
type NetConf struct {
	Network     string  `json:"Network"` // range of all pods
	EnableIPv4  *bool   `json:"EnableIPv4,omitempty"`
	EnableIPv6  bool    `json:"EnableIPv6,omitempty"`
	IPv6Network string  `json:"IPv6Network,omitempty"`
	SubnetLen   int     `json:"SubnetLen,omitempty"`
	Backend     Backend `json:"Backend"`
}

// Backend is how flannel carries packets.
type Backend struct {
	Type          string `json:"Type"` // "vxlan" here; "host-gw" and others exist
	VNI           uint32 `json:"VNI,omitempty"`
	Port          uint16 `json:"Port,omitempty"`
	Name          string `json:"Name,omitempty"`      // of the HNS network on Windows
	MacPrefix     string `json:"MacPrefix,omitempty"` // of MAC addresses on Windows
	DirectRouting bool   `json:"DirectRouting,omitempty"`
	GBP           bool   `json:"GBP,omitempty"`
}

// ParseNetConf reads flannel's configuration, whatever its backend.
func ParseNetConf(data []byte) (NetConf, error) {
	var n NetConf
	if err := json.Unmarshal(data, &n); err != nil {
		return NetConf{}, fmt.Errorf("reading flannel's net-conf.json: %w", err)
	}
	return n, nil
}

// NetConf returns the configuration that flanneld needs on every node to work with ours. pods is the range of all pods.
func (c Config) NetConf(pods string) NetConf {
	return NetConf{Network: pods, Backend: Backend{Type: BackendType, VNI: c.VNI, Port: c.Port}}
}

// Config returns the overlay that flannel makes of its configuration on Linux. The error says why Windows nodes could
// not take part in it, and what to change.
func (n NetConf) Config() (Config, error) {
	c := Config{VNI: flannelVNI, Port: flannelPort}
	if n.Backend.VNI != 0 {
		c.VNI = n.Backend.VNI
	}
	if n.Backend.Port != 0 {
		c.Port = n.Backend.Port
	}

	switch {
	case n.Backend.Type != BackendType:
		return c, fmt.Errorf("flannel's backend is %q, not vxlan", n.Backend.Type)
	case n.Backend.DirectRouting:
		return c,
			errors.New("\"DirectRouting\": Windows cannot mix routes and VXLAN: remove it from flannel's net-conf.json")
	case n.Backend.GBP:
		return c,
			errors.New("\"GBP\": Windows does not know group based policies: remove it from flannel's net-conf.json")
	}
	return c, c.Validate()
}
