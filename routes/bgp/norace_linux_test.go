//go:build !race

package bgp

const raced = false
