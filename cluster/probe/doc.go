// Package probe sends a packet in a local cluster and watches where it passes: on the interfaces of every machine, and
// in the networks of the pods at both ends. It changes nothing; what listens at the destination gets one connection,
// which is closed at once, or one datagram.
//
//	sender's network ──▶ one SYN, or one datagram with random bytes
//	packet sockets in each network ──▶ frames that carry it, translated, encapsulated or not ──▶ path.Sighting
package probe
