//go:build race

package bgp

// raced: the race detector is part of this program, which so takes several times the processor time and memory.
const raced = true
