// Package cgroup gives pods their place in the node's cgroup tree (Linux): the limits of a pod's cgroup, its creation,
// resize and removal; the limits of all pods together, and the shares of their classes.
//
//	Tree: which cgroups there are, with what limits ── driver ┬─ files: the kernel's folders
//	                                                          └─ slice: systemd's units (D-Bus), then the files for the rest
package cgroup
