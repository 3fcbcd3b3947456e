// Package runtimetest is a container runtime in memory, for tests. It speaks CRI and keeps the rules that containerd
// 2.3 keeps: names stay reserved until their owner is removed, a container needs a ready sandbox and a present image,
// stopping and removing what is gone succeeds, and each change is an event. It counts calls and prints its state.
// Tests can make calls fail or hang, take the service away, and let it lose its state.
//
// Suite holds the behaviours that the kubelet relies on. It runs against the fake (in this package) and against
// containerd (in test/kubelet); where the two differ, the fake is wrong.
package runtimetest
