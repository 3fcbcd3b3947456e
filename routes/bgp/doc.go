// Package bgp is the mode bgp: a node announces its own pod range to routers, route reflectors or all other nodes, and
// installs the pod ranges that it learns from them. Nothing is encapsulated, so that pods have the MTU of the
// underlay.
//
//	configuration file ─┐
//	nodes, annotations ─┼─▶ settings ─┐
//	                    │             ├─▶ plan ─▶ changes of the speaker: peers, the announced range
//	speaker: peers, learnt paths ─────┤        └▶ changes of the host's route table (routes/fib)
//	host: routes ─────────────────────┘
//
// The speaker is GoBGP, in this process. Two rules keep packets flowing. A process that ends says nothing to its
// peers: they close the session, keep its routes (graceful restart, RFC 4724), and the routes of this node stay in the
// kernel. And nothing is deleted before a peer has told everything: unknown is not absent.
package bgp
