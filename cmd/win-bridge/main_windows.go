// Command win-bridge is the CNI plugin for pods on L2Bridge networks of Windows hosts.
package main

import (
	"time"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/winbridge"
	"porthole.dev/porthole/hns/hcn"
)

func main() {
	client := hcn.New(hcn.Options{Deadline: 60 * time.Second})
	attach.Main("win-bridge", "endpoints on L2Bridge networks for Windows pods",
		attach.Plugin{Kind: winbridge.Kind{}, Reader: client, Writer: client, Rules: hcn.Rules{Client: client}})
}
