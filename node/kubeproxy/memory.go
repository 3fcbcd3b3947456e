package kubeproxy

import (
	"runtime/debug"
	"runtime/metrics"
)

// thrift keeps the heap small: a proxy is idle most of the time and lives on nodes with little memory. Who sets GOGC or
// GOMEMLIMIT chooses otherwise.
func thrift(getenv func(string) string, percent int) {
	if getenv("GOGC") == "" && getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(percent)
	}
}

// startPercent is how much garbage may lie beside what lives, in percent of it, by mode until the first services are
// programmed: they are decoded and written while the heap is still small, and would have it collected over and over. The
// userspace mode does not say when that is.
var startPercent = map[string]int{Kernelspace: 100, Userspace: 33}

// Later it is so many bytes, but no less than leastPercent. 10,000 services with ten endpoints each are 31 MB, of which a
// collection takes 30 ms or so.
const (
	spare        = 4 << 20
	leastPercent = 10
)

// So many services are dealt with sparingly from the beginning: what stays of them would lie between what does not, and
// take its pages.
const manyServices = 5000

// percentFor is the percentage for a heap in which so many bytes live.
func percentFor(live uint64) int { return int(min(max(100*spare/max(live, 1), leastPercent), 100)) }

// liveHeap is how many bytes the last collection left.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
