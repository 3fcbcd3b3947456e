// Package userspace serves frontends without the host's help: on hosts that have no HNS v2, or anywhere else. Addresses
// of services go on an interface of the host, and a relay in this process listens on them.
//
//	services, slices ──service.Tracker──▶ wanted ──────────────────────┐
//	addresses of the host; those of them that are ours; the relay ────▶┼─▶ Plan (pure) ─▶ operations ─▶ apply ─▶ interface,
//	interface, node port ranges, reserved addresses ─────────▶ facts ──┘                                         relay
//
// An address is ours if this mode put it there; a file says which those are, written before they are added and after they
// are removed, so that whatever happens in between the next start finds them: it keeps the right ones as they are and
// removes the others. An address that was there before is used and left. When the proxy ends, its addresses go.
//
// Limits of the mode: a backend sees this host as its client, not the client's address. A frontend without backends is
// refused, also where policy Local would drop; a client that source ranges shut out is reset after it was accepted. Open
// connections end with this process.
package userspace
