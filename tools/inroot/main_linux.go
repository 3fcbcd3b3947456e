// Command inroot runs a program with the programs and libraries of a root folder (tools/root) in the place of the
// machine's:
//
//	inroot DIR PROGRAM ARGUMENTS...
//	go test -exec "inroot DIR" ./emulator/wine
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"porthole.dev/porthole/internal/ownroot"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: inroot DIR PROGRAM ARGUMENTS...")
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "inroot: %v\n", run(os.Args[1], os.Args[2:]))
	os.Exit(1)
}

// run returns only if it fails.
func run(dir string, argv []string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = ownroot.Check(dir)
	}
	if err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0]) // a program that only the root has is named by its path there
	if err != nil {
		path = argv[0]
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	return ownroot.Enter(dir, append([]string{path}, argv[1:]...), os.Environ())
}
