// Command pealign copies a Windows program so that its sections lie at whole pages of the file, for Wine
// (internal/pealign):
//
//	pealign FROM TO
package main

import (
	"fmt"
	"os"

	"porthole.dev/porthole/internal/pealign"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pealign FROM TO")
		os.Exit(2)
	}
	if err := pealign.File(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "pealign: %v\n", err)
		os.Exit(1)
	}
}
