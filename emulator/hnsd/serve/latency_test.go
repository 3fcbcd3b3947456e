package serve

import (
	"context"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
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
		l, err := LatencyOf(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Cost(c.function, c.backends, c.present); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.profile, c.function, got, c.want)
		}
	}

	if _, err := LatencyOf("ws2031"); err == nil {
		t.Error("an unknown profile was taken")
	}
}

// TestSleepUntil: never early, and as a rule late by less than a tenth of the shortest latency.
func TestSleepUntil(t *testing.T) {
	var late []time.Duration
	for range 50 {
		end := time.Now().Add(1 * time.Millisecond)
		sleepUntil(t.Context(), end)
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
	sleepUntil(ctx, begin.Add(time.Hour))
	if time.Since(begin) > time.Minute {
		t.Error("an ended context does not end the wait")
	}
}

// TestLatencyOfCalls: a call takes what the table says, writes to a network one after another, reads beside them, and
// the report is the sum.
func TestLatencyOfCalls(t *testing.T) {
	s := startServer(t, 20348)
	c := s.connect("setup.exe", 1)
	network := c.network()
	id := c.idOf(hnsd.Network, network)
	s.control("POST", "/latency", `{"profile":"ws2022-updated"}`, nil)
	begin := time.Now()
	const threads, each = 4, 3
	done := make(chan struct{})
	for i := range threads {
		p := s.connect("kube-proxy.exe", 7)
		go func() {
			defer func() { done <- struct{}{} }()
			h := p.good(wire.On(hnsd.Network, wire.Open), 0, id).handle
			for n := range each {
				p.good(wire.On(hnsd.Endpoint, wire.Create), h, "", remoteEndpoint(i*each+n))
			}
		}()
	}

	reader := s.connect("reader.exe", 9)
	for range 10 {
		reader.good(wire.On(hnsd.Network, wire.Enumerate), 0, "")
	}
	read := time.Since(begin)
	for range threads {
		<-done
	}
	took := time.Since(begin)
	if read > took/2 {
		t.Errorf("10 reads took %v beside writes that took %v", read, took)
	}
	floor := threads * each * 30 * time.Millisecond
	if took < floor || took > floor*4 { // other programs share the machine
		t.Errorf("%d writes took %v, want %v", threads*each, took, floor)
	}
	var r LatencyReport
	s.control("GET", "/latency", "", &r)
	p := r.Programs["kube-proxy.exe"]
	if r.Profile != "ws2022-updated" || p.Writes != threads*each || !near(p.WriteSeconds, floor.Seconds()) ||
		p.Reads != threads || !near(p.ReadSeconds, threads*0.002) {
		t.Errorf("got %+v", r)
	}
	if n := r.Networks[id]; n.Writes != threads*each || r.Programs["reader.exe"].Reads != 10 {
		t.Errorf("got %+v", r)
	}
	s.control("POST", "/stats/reset", "", nil)
	var after LatencyReport
	s.control("GET", "/latency", "", &after)
	if len(after.Programs) != 0 || after.Profile != "ws2022-updated" {
		t.Errorf("after the reset: %+v", after)
	}
	if code, _ := s.tryControl("POST", "/latency", `{"profile":"ws2031"}`); code != 400 {
		t.Errorf("an unknown profile: %d", code)
	}
}

func near(a, b float64) bool { return a > b-1e-6 && a < b+1e-6 }
