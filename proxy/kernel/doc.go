// Package kernel serves frontends with load balancers of the Host Networking Service.
//
//	services, slices ──service.Frontends──▶ wanted ─┐
//	HNS: one listing per kind ──▶ listed (a cache) ─┼─▶ Plan (pure) ─▶ ordered operations ─▶ apply ─▶ HNS
//	version, network ─────────────────────▶ facts ──┘                                      └─▶ cache, status
//
// The loop is level-triggered: a change plans against the cache, which our own writes keep current; every Period, and
// after anything that failed, the cache is listed anew. What could not be listed leads to no plan. A load balancer that is
// right is left alone whoever made it, so that a restart writes nothing. Ours are the objects with our ids (marks.go):
// nothing else is ever deleted for being unknown.
package kernel
