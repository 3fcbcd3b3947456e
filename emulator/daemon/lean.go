package daemon

import "runtime/debug"

// leanPercent is how much garbage a daemon lets come together, as a share of what it holds; Go's default is 100.
const leanPercent = 40

// Lean makes the process hold less memory: an emulated host has several daemons, and a machine has many hosts. It
// gives back what the start of the program has used.
func Lean() {
	debug.SetGCPercent(leanPercent)
	debug.FreeOSMemory()
}
