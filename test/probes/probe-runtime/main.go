// Command probe-runtime asks the container runtime of a Windows host what docs/windows-facts.md wants to know, and
// prints JSON.
package main

import (
	"os"

	"porthole.dev/porthole/check/probe"
)

func main() { os.Exit(probe.Main(os.Args, probe.RunRuntime)) }
