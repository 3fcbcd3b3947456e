// Package slow makes limits of time longer on a slow machine, such as one that QEMU computes without KVM. It imports the standard library only.
package slow

import (
	"os"
	"strconv"
	"sync"
	"time"
)

// Variable of the environment says by how much longer than usual everything may take: a number, 1 or more. `porthole up --time-scale` sets it
// for itself and for what it starts.
const Variable = "PORTHOLE_TIME_SCALE"

var scale = sync.OnceValue(func() float64 {
	if s, err := strconv.ParseFloat(os.Getenv(Variable), 64); err == nil && s > 1 {
		return s
	}
	return 1
})

// Limit returns what a limit of time is on this machine, from what it is on usual ones.
func Limit(usual time.Duration) time.Duration { return time.Duration(float64(usual) * scale()) }

// Machine reports whether this one is slow.
func Machine() bool { return scale() > 1 }

// Environment returns what a program's environment needs for the same limits.
func Environment() []string {
	if s := os.Getenv(Variable); s != "" {
		return []string{Variable + "=" + s}
	}
	return nil
}
