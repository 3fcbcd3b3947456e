// Package capture lets tests see the packets on an interface, as tcpdump does: with their addresses, and with what
// VXLAN and Geneve carry inside.
//
//	wire := capture.Start(t, platform.NetnsPath("porthole-lin01"), "eth0")
//	… send something …
//	wire.Wait(t, "the request of the pod", func(p capture.Packet) bool { return p.Src == pod && p.ICMP == capture.EchoRequest })
package capture
