// Command ovn_cni is the CNI plugin for pods on OVN's integration bridge.
package main

import (
	"porthole.dev/porthole/cni/ovn"
	"porthole.dev/porthole/internal/ovnet"
)

func main() {
	ovn.Main("ovn_cni", ovn.Plugin{Links: ovn.Veth{}, Agent: ovnet.AgentAddress, Database: "unix:/var/run/openvswitch/db.sock"})
}
