// Command porthole-routes is `porthole routes` alone, a program that is half as large and so takes less of a node's
// memory.
package main

import (
	"os"
	"runtime"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cli/routes"
)

func main() {
	runtime.MemProfileRate = 0 // nobody can ask for a profile of memory, and its table takes a megabyte
	os.Exit(program.Run(program.Root(routes.Command(nil)), append([]string{"routes"}, os.Args[1:]...)...))
}
