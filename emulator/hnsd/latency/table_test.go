package latency

import (
	"context"
	"testing"
	"time"
)

func TestLatencyCost(t *testing.T) {
	for _, c := range []struct {
		profile, function string
		backends, present int
		want              time.Duration
	}{
		{"fast", "HcnCreateLoadBalancer", 5, 100, 0},
		{"none", "HcnEnumerateNetworks", 0, 0, 0},
		{"ws2025", "HcnOpenNetwork", 0, 0, time.Millisecond},
		{"ws2025", "HcnCreateEndpoint", 0, 9, 15 * time.Millisecond},
		{"ws2025", "HcnCreateLoadBalancer", 4, 9, 22 * time.Millisecond},
		{"ws2025", "HcnModifyLoadBalancer", 4, 9, 12 * time.Millisecond},
		{"ws2025", "HcnModifyNamespace", 0, 9, 15 * time.Millisecond},
		{"ws2025", "HcnCloseNetwork", 0, 0, 0},
		{"ws2022-updated", "HcnCreateLoadBalancer", 5, 1000, 40 * time.Millisecond},
		{"ws2022-updated", "HcnModifyLoadBalancer", 5, 1000, 2 * time.Millisecond}, // refused at once
		{"ws2019", "HcnCreateLoadBalancer", 5, 1000, 1725 * time.Millisecond},
		{"ws2019", "HNSCall POST /policylists/", 5, 1000, 1725 * time.Millisecond},
		{"ws2019", "HNSCall GET /policylists/", 0, 1000, 5 * time.Millisecond},
		{"ws2019", "HNSCall DELETE /endpoints/", 0, 1000, 300 * time.Millisecond},
		{"ws2019-bad", "HcnCreateLoadBalancer", 5, 1000, 3400 * time.Millisecond},
		{"ws2022-bad", "HcnDeleteLoadBalancer", 5, 1000, 2 * time.Second},
	} {
		l, err := Of(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Cost(c.function, c.backends, c.present); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.profile, c.function, got, c.want)
		}
	}

	if _, err := Of("ws2031"); err == nil {
		t.Error("an unknown profile was taken")
	}
}

// TestSleepUntil: never early, and as a rule late by less than a tenth of the shortest latency.
func TestSleepUntil(t *testing.T) {
	var late []time.Duration
	for range 50 {
		end := time.Now().Add(1 * time.Millisecond)
		SleepUntil(t.Context(), end)
		if over := time.Since(end); over < 0 {
			t.Fatalf("%v early", -over)
		} else {
			late = append(late, over)
		}
	}

	onTime := 0
	for _, d := range late {
		if d < 100*time.Microsecond {
			onTime++
		}
	}

	if onTime < len(late)/4 { // other programs share the machine
		t.Errorf("only %d of %d waits of 1 ms ended within 100 µs: %v", onTime, len(late), late)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	SleepUntil(ctx, begin.Add(time.Hour))
	if time.Since(begin) > time.Minute {
		t.Error("an ended context does not end the wait")
	}
}
