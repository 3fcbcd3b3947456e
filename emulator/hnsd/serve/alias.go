package serve

import (
	"porthole.dev/porthole/emulator/hnsd/ipstack"
	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/hnsd/ports"
)

// What callers of the control interface send and get is part of it.
type (
	// Pool is the state of the host's blocks of ephemeral ports.
	Pool = ports.State
	// PoolRequest sets how many there are.
	PoolRequest = ports.Request
	// DNSServers are what the network gives the host's first card.
	DNSServers = ipstack.DNSServers
	// LatencyReport is the table in use and the time injected.
	LatencyReport = latency.Report
)
