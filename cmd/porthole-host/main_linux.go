// Command porthole-host is the daemons of an emulated Windows host, `porthole host-hnsd`, `host-hcsd` and `host-scm`,
// with `host-clear` and `host-box`, in a program of their own: a machine has them once for each host, and they take
// less than half of the memory in it.
package main

import (
	"os"
	"runtime"

	"porthole.dev/porthole/cli/hostbox"
	"porthole.dev/porthole/cli/hostclear"
	"porthole.dev/porthole/cli/hosthcsd"
	"porthole.dev/porthole/cli/hosthnsd"
	"porthole.dev/porthole/cli/hostscm"
	"porthole.dev/porthole/cli/program"
)

func main() {
	runtime.MemProfileRate = 0 // nobody can ask for a profile of memory, and its table takes a megabyte
	os.Exit(program.Run(program.Root(hosthnsd.Command(), hosthcsd.Command(), hostscm.Command(), hostclear.Command(),
		hostbox.Command()), os.Args[1:]...))
}
