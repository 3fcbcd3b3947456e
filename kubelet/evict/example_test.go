package evict_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"porthole.dev/porthole/kubelet/evict"
)

// A node has 50 MiB of memory left and wants 100. The first round asks for what pods use, the second evicts the one
// that uses most above its request.
func ExampleState_Next() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	desired := evict.Desired{Thresholds: []evict.Threshold{
		{Signal: "memory.available", Least: evict.Amount{Number: 100 << 20}}}}
	observed := evict.Observed{
		Left: evict.Left{Levels: map[string]evict.Level{
			"memory.available": {Left: 50 << 20, Whole: 4 << 30, At: now}}},
		Pods: []evict.Pod{named("small"), named("large")},
	}

	plan, _ := evict.State{}.Next(desired, observed, now)
	fmt.Print(plan)

	observed.Pods[0].Usage = &evict.Usage{Memory: ptr.To(uint64(10 << 20))}
	observed.Pods[1].Usage = &evict.Usage{Memory: ptr.To(uint64(900 << 20))}
	observed.Measured = true
	plan, _ = evict.State{}.Next(desired, observed, now)
	for _, e := range plan.Evictions {
		fmt.Println("evict", e.Pod.Name)
		fmt.Println(e.Message)
	}
	// Output:
	// condition MemoryPressure
	// starved of memory
	// measure all pods
	// evict large
	// The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.
}

func named(name string) evict.Pod {
	return evict.Pod{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Status: v1.PodStatus{Phase: v1.PodRunning}}}
}
