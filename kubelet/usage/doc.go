// Package usage reads what cgroups use (Linux, version 1 and 2): those of pods, of containers, of all pods together,
// and of programs of the node. It reads files and has no state but what hangs: a cgroup that does not answer is left
// out until it does, and costs the others a moment once.
package usage
