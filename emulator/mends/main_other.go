//go:build !windows

// Command mends exists for emulated Windows hosts only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "mends is for emulated Windows hosts")
	os.Exit(1)
}
