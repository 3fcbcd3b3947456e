//go:build race

package bgp

// raced is true if this test program was built with the race detector, which multiplies its processor time and memory.
const raced = true
