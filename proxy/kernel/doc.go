// Package kernel serves frontends with load balancers of the Host Networking Service.
//
//	services ──Take──▶ targets (one per frontend) ─┐
//	HNS: surveys ──▶ index (ids, documents) ───────┼─▶ view.frontend (pure) ─▶ operations ─▶ queue ─▶ calls ─▶ HNS
//	version, network ──▶ facts ────────────────────┘                                   └─ outcome ─▶ index, status
//
// One goroutine, Run's, owns everything; calls to HNS run beside it and send back what HNS said, so that one that hangs
// holds up nothing but its own frontend. The loop is level-triggered: what is wanted and what HNS has decide, never what was
// done before. A change plans the frontends it touches; a survey (every Period, when HNS notifies, and when in doubt) lists
// ids, reads what is unknown, and plans everything against it. A plan is made anew whenever work leaves the queue.
//
//	observe: survey.go     decide: plan.go, document.go     order, wait, retry: state.go, loop.go, work.go, supply.go
//	tell: status.go        for `hns diff`: Proxy.Diff       for --cleanup: cleanup.go
//
// Rules: what could not be listed leads to no plan. A write that was not answered is looked up before it is repeated. A load
// balancer that is right is left alone whoever made it, so that a restart writes nothing. Ours are the objects with our ids
// (marks.go): nothing else is ever deleted for being unknown. A failure backs off for its own frontend; while HNS does not
// answer, nothing is asked of it but whether it is there. DNS and the API service go first, cleaning up last.
package kernel
