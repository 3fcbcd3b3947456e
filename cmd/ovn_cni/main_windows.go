// Command ovn_cni is the CNI plugin for pods on OVN's integration bridge.
package main

import (
	"time"

	"porthole.dev/porthole/cni/ovn"
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/platform"
)

func main() {
	client := hcn.New(hcn.Options{Deadline: 60 * time.Second})
	ovn.Main("ovn_cni", ovn.Plugin{Links: ovn.Endpoints{Reader: client, Writer: client}, Agent: ovnet.AgentAddress,
		Kind: "internal", Database: platform.OVSDatabase})
}
