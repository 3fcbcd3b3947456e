// Command porthole is every part of a Windows Kubernetes node in one program; see `porthole --help`.
package main

import (
	"os"

	"porthole.dev/porthole/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
