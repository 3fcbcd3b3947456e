// Package nb decides what the northbound database of OVN must hold for a cluster, and by which operations it gets
// there. It is pure.
//
//	nodes, pods, services ──Want──▶ objects ─┐
//	                                         ├─MakePlan─▶ operations of one transaction
//	rows of the database ────────────────────┘
//
// What it makes:
//
//	Logical_Router porthole
//	 ├─ rtos-NODE  first address of the node's range ── stor-NODE ─┐
//	 └─ a route for what comes from the range and leaves OVN       │
//	                                                    Logical_Switch NODE
//	     k8s-NODE   second address: the node itself  ──────────────┤
//	     NAMESPACE_POD  one port for each pod            ──────────┤
//	     Load_Balancer_Group porthole: one load balancer for each service and protocol
//
// Rows of ours carry external_ids:porthole, which is their key here. Rows without it are left alone, and so are
// columns and keys that this package does not name.
package nb
