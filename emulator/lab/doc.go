// Package lab makes the network that local hosts live in: one namespace that plays the top-of-rack router and the
// outside world, and one namespace per host, joined by an Ethernet segment.
//
//	porthole-tor                          porthole-lin01     porthole-win01
//	┌──────────────────────────┐          ┌────────────┐     ┌────────────┐
//	│ sw0 10.99.0.1/24 (bridge)│──veth────│ eth0 .11/24│     │ eth0 .21/24│
//	│  203.0.113.1/32 on lo    │──veth────┼────────────┼─────│            │
//	└──────────────────────────┘          └────────────┘     └────────────┘
//
// Everything is found by name, so a process that was killed half-way can call the same functions again.
package lab
