//go:build !windows

// Command win-bridge is the CNI plugin for pods on L2Bridge networks of Windows hosts.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr,
		"win-bridge: needs Windows and its Host Networking Service; Linux nodes use the standard bridge plugin")
	os.Exit(1)
}
