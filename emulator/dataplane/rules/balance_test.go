package rules

import "testing"

func TestAffinityKeepsOthers(t *testing.T) {
	var backends []backend
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		backends = append(backends, backend{id: id})
	}
	before, after := affinity("lb", backends), affinity("lb", backends[1:])
	count := map[string]int{}
	for i := range before {
		count[before[i].id]++
		if before[i].id != "a" && before[i] != after[i] {
			t.Errorf("slot %d moved from %s to %s", i, before[i].id, after[i].id)
		}
	}
	for _, b := range backends {
		if count[b.id] < 256/5/2 {
			t.Errorf("backend %s has %d of 256 slots", b.id, count[b.id])
		}
	}
}
