//go:build !windows

// Command netsh exists for emulated Windows hosts only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "netsh is for emulated Windows hosts")
	os.Exit(1)
}
