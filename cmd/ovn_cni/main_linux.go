// Command ovn_cni is the CNI plugin for pods on OVN's integration bridge.
package main

import (
	"porthole.dev/porthole/cni/ovn"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/platform"
)

func main() {
	ovn.Main("ovn_cni", ovn.Plugin{Links: ovn.Veth{}, Agent: ovnet.AgentAddress, Database: platform.OVSDatabase})
}
