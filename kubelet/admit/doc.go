// Package admit decides which pods may run on the node, and which may have more of it than they have. It applies
// upstream's rules in upstream's order and words, and keeps the account of what the admitted pods hold.
//
//	               rules: sysctls, OS, resources, affinity, host ports, taints, AppArmor
//	                 │
//	Admit(pod) ──────┴─> place ── Release ─> free
//	                       │ ▲                │
//	            Resize(pod)│ │room            │
//	                       ▼ │                ▼
//	                     waiting <── in turn: priority, class, waiting time
//
// The package knows no pod's state: the kubelet reports the end of a pod by Release.
package admit
