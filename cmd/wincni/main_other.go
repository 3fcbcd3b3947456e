//go:build !windows

// Command wincni is the CNI plugin for configurations of Microsoft's wincni.exe.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "wincni: needs Windows and its Host Networking Service; Linux nodes use the standard bridge plugin")
	os.Exit(1)
}
