// Package evict decides which pods end because the node runs out of memory, disk or process ids. It is pure: what is
// left of the node, the pods and the time go in; conditions of the node and operations come out.
//
//	levels ──▶ thresholds that are not met ──▶ node conditions (MemoryPressure, …), which stay for the transition period
//	                     │ whose grace is over
//	                     ▼
//	           event, give back what no pod needs ──▶ levels, once more ──▶ all met: done
//	                                                        │
//	pods and what they use ─────────────────────────────────┴─▶ ranking ──▶ evict one pod, wait until it is gone
//	                       └▶ limits of local storage ──▶ evict those that are above
//
// A round is a call of Plan, or several: Plan says in Needs what it has to know or have done before it can go on, so
// that usage of pods, which is expensive to read, is read only when it decides something.
//
// Order, words and annotations are those of upstream's kubelet (pkg/kubelet/eviction of 1.36.3).
//
//	file          what is in it
//	types.go      what goes in and comes out
//	threshold.go  signals, amounts, when a threshold is met
//	plan.go       a round
//	rank.go       which pod first
//	limits.go     emptyDir.sizeLimit and limits of ephemeral-storage
//	message.go    the words
package evict
