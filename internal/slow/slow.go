// Package slow makes timeouts longer on a slow machine, such as a virtual one without KVM. It imports the
// standard library only.
package slow

import (
	"os"
	"strconv"
	"sync"
	"time"
)

// Variable is the environment variable with the factor of all timeouts: a number, 1 or more. `porthole up
// --time-scale` sets it for itself and for the processes that it starts.
const Variable = "PORTHOLE_TIME_SCALE"

var scale = sync.OnceValue(func() float64 {
	if s, err := strconv.ParseFloat(os.Getenv(Variable), 64); err == nil && s > 1 {
		return s
	}
	return 1
})

// Limit returns a timeout for this machine: the usual one, times the factor.
func Limit(usual time.Duration) time.Duration { return time.Duration(float64(usual) * scale()) }

// Machine reports whether this machine is a slow one: its factor is more than 1.
func Machine() bool { return scale() > 1 }

// Environment returns the variable as an entry of another process's environment; none if it is not set.
func Environment() []string {
	if s := os.Getenv(Variable); s != "" {
		return []string{Variable + "=" + s}
	}
	return nil
}
