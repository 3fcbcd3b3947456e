// Command win-bridge is the CNI plugin for pods on L2Bridge networks of Windows hosts.
package main

import (
	"time"

	"porthole.dev/porthole/cni/winbridge"
	"porthole.dev/porthole/hns/hcn"
)

func main() { winbridge.Main(hcn.New(hcn.Options{Deadline: 60 * time.Second})) }
