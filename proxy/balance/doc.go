// Package balance decides which load balancers and endpoints the Host Networking Service (HNS) should have for the
// frontends of services. It is pure: it reads no clock, makes no calls and starts no goroutine, so that all of it is
// tested anywhere.
//
//	listed endpoints, load balancers ──▶ Index ─┐
//	version, network, node addresses ──▶ Facts ─┼─▶ Planner ──▶ Plan of one load balancer: operations and problems
//	frontends of services ──────────────────────┘          └──▶ Changes: everything that separates HNS from what is wanted
//
//	facts.go     what HNS, the network and the node are like
//	ids.go       our object ids, by which our own objects are recognised
//	index.go     what HNS has, found by id, address and frontend; index_listing.go compares it with a listing
//	derive.go    frontends that are derived from those of services: node access, health checks
//	document.go  the load balancer or endpoint for a frontend or address
//	plan.go      what one frontend needs
//	unused.go    what is to be deleted: the one rule for the proxy's loop and for `porthole hns diff`
//	diff.go      the comparison of everything
//
// proxy/kernel runs the loop that carries plans out. testdata has scripts: given services and HNS objects, the
// expected plan.
package balance
