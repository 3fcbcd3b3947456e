// Package cgroup gives pods their place in the node's cgroup tree (Linux): the limits of a pod's cgroup, its creation,
// resize and removal; the limits of all pods together, and the shares of their classes.
package cgroup
