package kubeproxy

import (
	"runtime/debug"
	"runtime/metrics"
)

// limitGarbage sets how much garbage is allowed, in percent of the live heap. A proxy is idle most of the time and
// runs on nodes with little memory, so less is better than Go's default of 100. It does nothing if GOGC or GOMEMLIMIT
// is set: then the user decides.
func limitGarbage(getenv func(string) string, percent int) {
	if getenv("GOGC") == "" && getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(percent)
	}
}

// startPercent is the garbage that is allowed until the first services are programmed, in percent of the live heap, by
// mode. The heap is small at that time while many objects are decoded, so that a low limit would cause one collection
// after another. The userspace mode does not report when its services are programmed; it gets a lower limit from the
// beginning.
var startPercent = map[string]int{Kernelspace: 100, Userspace: 33}

// After the start spareBytes of garbage are allowed, but no less than leastPercent of the live heap. With 10,000
// services of ten endpoints each the live heap is 31 MB, and a collection takes about 30 ms.
const (
	spareBytes   = 4 << 20
	leastPercent = 10
)

// manyServices is the number of services in the first listing from which the heap is kept small at once. Otherwise
// their long-lived objects would lie scattered between garbage, and keep its pages in use.
const manyServices = 5000

// percentFor returns the percentage of garbage for a live heap of that many bytes.
func percentFor(live uint64) int {
	return int(min(max(100*spareBytes/max(live, 1), leastPercent), 100))
}

// liveHeap returns the number of bytes that the last collection left, or 0 if the runtime does not tell.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
