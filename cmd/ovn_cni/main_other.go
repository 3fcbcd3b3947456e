//go:build !linux && !windows

// Command ovn_cni is the CNI plugin for pods on OVN's integration bridge.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "ovn_cni: needs Linux or Windows with Open vSwitch")
	os.Exit(1)
}
