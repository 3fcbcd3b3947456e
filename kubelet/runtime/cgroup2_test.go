package runtime

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestCgroups: what containers get beside their limits, by what the node's cgroups can do.
func TestCgroups(t *testing.T) {
	amounts := func(request, limit string) v1.Container {
		c := v1.Container{}
		if request != "" {
			c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
		}
		if limit != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
		}
		return c
	}
	const mega = 1 << 20
	two := Cgroups{Version: 2, LimitsSwap: true, SwapBytes: 50 * mega}
	limited := two
	limited.SwapBehavior = "LimitedSwap"
	critical := int32(2000001000)

	for _, c := range []struct {
		what     string
		cgroups  Cgroups
		class    v1.PodQOSClass
		priority *int32
		c        v1.Container
		want     string
	}{
		{"version 1", Cgroups{Version: 1}, v1.PodQOSBurstable, nil, amounts("10Mi", "20Mi"), "0 map[]"},
		{"version 1 with limits of swap", Cgroups{Version: 1, LimitsSwap: true}, v1.PodQOSBurstable, nil,
			amounts("10Mi", "20Mi"), "20971520 map[]"},
		{"version 2", Cgroups{Version: 2}, v1.PodQOSBurstable, nil, amounts("10Mi", "20Mi"),
			"0 map[memory.oom.group:1]"},
		{"singleProcessOOMKill", Cgroups{Version: 2, SingleProcessOOMKill: true}, v1.PodQOSBurstable, nil,
			amounts("10Mi", "20Mi"), "0 map[]"},
		{"NoSwap", two, v1.PodQOSBurstable, nil, amounts("10Mi", "20Mi"),
			"0 map[memory.oom.group:1 memory.swap.max:0]"},
		{"LimitedSwap", limited, v1.PodQOSBurstable, nil, amounts("10Mi", "20Mi"),
			"0 map[memory.oom.group:1 memory.swap.max:5242880]"},
		{"LimitedSwap, no limit", limited, v1.PodQOSBurstable, nil, amounts("10Mi", ""),
			"0 map[memory.oom.group:1 memory.swap.max:5242880]"},
		{"LimitedSwap, nothing asked for", limited, v1.PodQOSBurstable, nil, amounts("", "20Mi"),
			"0 map[memory.oom.group:1 memory.swap.max:0]"},
		{"LimitedSwap, all asked for", limited, v1.PodQOSBurstable, nil, amounts("20Mi", "20Mi"),
			"0 map[memory.oom.group:1 memory.swap.max:0]"},
		{"LimitedSwap, guaranteed", limited, v1.PodQOSGuaranteed, nil, amounts("20Mi", "20Mi"),
			"0 map[memory.oom.group:1 memory.swap.max:0]"},
		{"LimitedSwap, best effort", limited, v1.PodQOSBestEffort, nil, amounts("", ""),
			"0 map[memory.oom.group:1 memory.swap.max:0]"},
		{"LimitedSwap, critical", limited, v1.PodQOSBurstable, &critical, amounts("10Mi", "20Mi"),
			"0 map[memory.oom.group:1 memory.swap.max:0]"},
		{"LimitedSwap, more than the node has", limited, v1.PodQOSBurstable, nil, amounts("200Mi", ""),
			"0 map[memory.oom.group:1 memory.swap.max:0]"},
	} {
		o := Options{MemoryBytes: 100 * mega, Cgroups: c.cgroups}
		r := o.linuxResources(&v1.Pod{Spec: v1.PodSpec{Priority: c.priority}, Status: v1.PodStatus{QOSClass: c.class}},
			&c.c)
		if got := fmt.Sprint(r.MemorySwapLimitInBytes, r.Unified); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
