// Package userspace serves frontends without HNS: on Windows hosts without HNS v2, or on any other host. It puts the
// addresses of services on an interface of the host, and a relay in this process listens on them.
//
//	services, slices ──service.Tracker──▶ wanted ──────────────────────┐
//	addresses of the host, those that are ours, state of the relay ───▶┼─▶ Plan (pure) ─▶ operations ─▶ apply ─▶ interface,
//	interface, node port ranges, reserved addresses ─────────▶ facts ──┘                                         relay
//
// An address is ours if this mode put it there. A file lists them. It is written before an address is added and after
// it is removed, so the next start finds every address of ours, whatever happened in between: it keeps those that are
// wanted and removes the others. An address that was there before is used and stays. When the proxy ends, it removes
// its addresses.
//
// Limits of the mode: a backend sees this host's address in place of the client's. Connections to a frontend without
// backends are refused, also where policy Local would drop them. A client outside the source ranges is accepted and
// then reset. Open connections end with this process.
package userspace
