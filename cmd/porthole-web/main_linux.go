// Command porthole-web is `porthole web` alone, a program that is less than half as large and so takes less memory.
package main

import (
	"os"
	"runtime"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cli/web"
)

func main() {
	runtime.MemProfileRate = 0 // nobody can ask for a profile of memory, and its table takes a megabyte
	os.Exit(program.Run(program.Root(web.Command()), os.Args[1:]...))
}
