package serve

import (
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

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
