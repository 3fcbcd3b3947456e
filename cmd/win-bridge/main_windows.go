// Command win-bridge is the CNI plugin for pods on networks of Windows hosts. It goes by its own name: win-overlay is
// the plugin for Overlay networks, wincni that for configurations of Microsoft's wincni.exe, and each other name, as
// some runtimes ask for, the one for L2Bridge networks.
package main

import (
	"os"
	"time"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/winbridge"
	"porthole.dev/porthole/cni/wincni"
	"porthole.dev/porthole/cni/winoverlay"
	"porthole.dev/porthole/hns/hcn"
)

func main() {
	client := hcn.New(hcn.Options{Deadline: 60 * time.Second})
	p := attach.Plugin{Reader: client, Writer: client, Rules: hcn.Rules{Client: client}}
	switch nameOf(os.Args[0]) {
	case "win-overlay":
		p.Kind, p.Fields = winoverlay.Kind{}, winoverlay.Fields
		attach.Main("win-overlay", "endpoints on Overlay networks for Windows pods", p)
	case "wincni":
		p.Kind, p.WithoutNamespace = wincni.Kind{}, true
		attach.Main("wincni", "endpoints for Windows pods, by configurations of Microsoft's wincni", p)
	default:
		p.Kind = winbridge.Kind{}
		attach.Main("win-bridge", "endpoints on L2Bridge networks for Windows pods", p)
	}
}
