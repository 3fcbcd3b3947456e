// Package dra is the node's side of dynamic resource allocation (resource.k8s.io/v1): pods name ResourceClaims, the
// scheduler allocates devices to these, and drivers, which are programs of the node, make the devices ready.
//
//	plugins_registry ──> Drivers ──────── connected? ──────> ResourceSlices of a driver that stays away are deleted
//	                        │
//	pod, its claims ──> Manager.Prepare ──NodePrepareResources──> driver
//	                        │   ▲                                    │
//	                     table  └───── devices, their CDI ids ───────┘
//	                     │ │ └─ file: what was asked for, also of pods that are gone
//	   container is made ┘ │
//	   pod has ended ──> Manager.Unprepare ──NodeUnprepareResources──> driver
//
// A claim is in the table, and on the disk, before a driver is asked to prepare it, and until all its drivers have
// undone that after the last of its pods has ended. The file is upstream's (kubelet/checkpoint). Rules, words and
// times are those of upstream's pkg/kubelet/cm/dra, 1.36.3, unless a comment says otherwise.
package dra
