// Command wincni is the CNI plugin for configurations of Microsoft's wincni.exe.
package main

import (
	"time"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/wincni"
	"porthole.dev/porthole/hns/hcn"
)

func main() {
	client := hcn.New(hcn.Options{Deadline: 60 * time.Second})
	attach.Main("wincni", "endpoints for Windows pods, by configurations of Microsoft's wincni",
		attach.Plugin{Kind: wincni.Kind{}, Reader: client, Writer: client, Rules: hcn.Rules{Client: client}, WithoutNamespace: true})
}
