// Package pin gives containers processors that nobody else of the pods uses, and memory of certain NUMA nodes:
// upstream's CPU manager with the policy static, and its memory manager with the policy Static.
//
//	pod is admitted ── Begin ── Hints ── (merged with others') ── Allocate ── Commit ──> checkpoint
//	container is made, others begin or end ── Of ──> processors and memory nodes for its cgroup
//
// A container of a pod of the class Guaranteed that asks for whole processors has them for itself until the pod has
// ended. All other containers share the rest, among them the processors that are reserved for the system, which nobody
// gets alone. What is shared is not stored anywhere: it is what nobody has. The files are upstream's
// (kubelet/checkpoint). Rules, words and their order are those of upstream's pkg/kubelet/cm/cpumanager and
// memorymanager, 1.36.3, with the feature gate PodLevelResourceManagers off, as by default: pods with resources of the
// pod as a whole get nothing for themselves.
package pin
