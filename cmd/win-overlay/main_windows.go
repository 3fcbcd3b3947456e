// Command win-overlay is the CNI plugin for pods on Overlay networks of Windows hosts.
package main

import (
	"time"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/winoverlay"
	"porthole.dev/porthole/hns/hcn"
)

func main() {
	client := hcn.New(hcn.Options{Deadline: 60 * time.Second})
	attach.Main("win-overlay", "endpoints on Overlay networks for Windows pods",
		attach.Plugin{Kind: winoverlay.Kind{}, Reader: client, Writer: client, Rules: hcn.Rules{Client: client}, Fields: winoverlay.Fields})
}
