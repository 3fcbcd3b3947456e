// Package allot gives pods what a node has in pieces, and limits what all of them have together.
//
//	device plugins ── device ─┐
//	processors, memory ─ pin ─┼─ Placing ─┐            ┌─▶ what is added to a container (AddTo, PlaceOf)
//	drivers of claims ─── dra ────────────┼─▶ Manager ─┼─▶ the processors of running containers (repin)
//	ranges of user ids ─ userns ──────────┘            └─▶ who has what, for status and programs of the node (Resources)
//
// The packages device, pin, dra and userns each know one trade. This one knows which of them a node has, lets them
// agree on the NUMA nodes of a pod, and keeps running containers where they should be. Share does the same for the
// cgroups above the pods'.
package allot
