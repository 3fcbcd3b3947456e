//go:build !windows

// Command win-overlay is the CNI plugin for pods on Overlay networks of Windows hosts.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "win-overlay: needs Windows and its Host Networking Service; Linux nodes use the standard bridge plugin")
	os.Exit(1)
}
