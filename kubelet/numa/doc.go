// Package numa knows where the processors and the memory of a machine are, and which of them are near to each other.
// It computes only; Read is the one function that reads files.
//
//	sysfs ── Read ──> Machine ── Take ──> processors for one container
//	hints of memory, processors, devices ── Policy.Merge ──> one hint, or none
//
// Rules and their order are those of upstream's pkg/kubelet/cm/topologymanager and cpumanager, 1.36.3, unless a
// comment says otherwise.
package numa
