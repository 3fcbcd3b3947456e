// Package kernel serves the frontends of services with load balancers of the Host Networking Service (HNS).
// proxy/balance decides what HNS should have; this package runs the loop that makes it so.
//
//	services ─Take─▶ demand ─▶ targets ──────┐
//	HNS ─full check─▶ known: index and facts ┼─▶ balance.Planner ─▶ operations ─▶ work ─▶ calls ─▶ HNS
//	node, network ───────────────────────────┘                                     └ answers ─▶ known, report
//
// One goroutine, that of Proxy.Run, owns everything. Calls to HNS run beside it and send back what HNS answered, so a
// call that hangs holds up nothing but its own frontend. The loop is level-triggered: it compares what is wanted with
// what HNS has, and does not remember what it did before. A change plans the frontends it touches. A full check (every
// Options.Period, when HNS notifies, and when in doubt) lists ids, reads the documents of unknown objects, and plans
// everything. Whatever leaves the queue is planned again, so a queue never holds old plans.
//
//	proxy.go      the loop and its triggers          demand.go, derive.go   services, and the frontends they want
//	lifecycle.go  one frontend: plan, write, retry   known.go               what is known of HNS
//	endpoints.go  endpoints that targets need        fullcheck.go, lister.go finding out what HNS has
//	work.go       queue, alarms and calls            probe.go               load balancers that do not work though listed
//	targets.go    all frontends, and their state     report.go, status.go   what is reported
//	target.go     the work on one                    task.go                the phases of a piece of work
//	pace.go       how many calls at once             diff.go                for `porthole hns diff`
//	cleanup.go    for --cleanup
//
// Rules: nothing is planned while HNS could not be listed. A write that HNS did not answer is looked up before it is
// repeated. A load balancer that is right is left alone regardless of who created it, so a restart writes nothing.
// Ours are the objects with our ids (proxy/balance ids.go); nothing else is deleted because it is unknown. A failure
// delays the retry of its own frontend only. While HNS does not answer, it is only asked whether it is there. DNS and
// the API service go first, deletions last.
package kernel
