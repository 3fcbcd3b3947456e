package serve

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/netspace"
)

var (
	speedBalancers = flag.Int("balancers", 2000, "load balancers of BenchmarkCalls")
	speedEndpoints = flag.Int("endpoints", 5000, "remote endpoints of BenchmarkCalls")
)

// BenchmarkCalls fills an HNS as a service proxy would at its first start, and reads everything back:
//
//	go test ./emulator/hnsd/serve -run - -bench Calls -benchtime 1x [-args -balancers 10000]
func BenchmarkCalls(b *testing.B) {
	for _, plane := range []string{"none", "kernel"} {
		b.Run("plane="+plane, func(b *testing.B) {
			for range b.N {
				benchmarkCalls(b, plane == "kernel")
			}
		})
	}
}

func benchmarkCalls(b *testing.B, kernel bool) {
	profile, err := hnsd.ProfileOf(26100)
	if err != nil {
		b.Fatal(err)
	}
	host := &hnsd.Host{Profile: profile, NodeAddr: "10.99.7.21", NodeMAC: "00-15-5D-00-00-01", NewID: newID}
	var plane DataPlane = NoDataPlane{}
	if kernel {
		d, err := dataplane.New(dataplane.Options{Netns: netspace.New(b, "speed").Path})
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		plane = d
	}

	s, err := newService(optionsIn(b.TempDir(), host, plane))
	if err != nil {
		b.Fatal(err)
	}
	ctx, who := context.Background(), caller{1, "bench.exe"}
	s.handles.Connected(1)
	do := func(op wire.Op, handle uint64, text string) wire.Answer {
		a, _ := s.answer(ctx, who,
			wire.Request{Op: op, Handle: handle, GUID: hnsd.ZeroID, Text: [3]string{text}}, nil)
		if a.Result != 0 {
			b.Fatalf("call %d: %#x %v", op, a.Result, *a.Text[1])
		}
		return a
	}

	network := do(wire.On(hnsd.Network, wire.Create), 0, bridgeNetwork).Handle
	ids := make([]string, *speedEndpoints)
	phase := func(name string, calls int, run func()) {
		begin := time.Now()
		run()
		took := time.Since(begin)
		b.ReportMetric(float64(took.Microseconds())/float64(calls), name+"-µs/call")
		b.Logf("%s: %d calls in %v", name, calls, took.Round(time.Millisecond))
	}

	phase("endpoint", len(ids), func() {
		for i := range ids {
			h := do(wire.On(hnsd.Endpoint, wire.Create), network, remoteEndpoint(i)).Handle
			ids[i], _ = s.handles.ID(h, hnsd.Endpoint, 1)
			do(wire.On(hnsd.Endpoint, wire.Close), h, "")
		}
	})

	phase("balancer", *speedBalancers, func() {
		for i := range *speedBalancers {
			backends := []string{}
			for k := range min(5, len(ids)) {
				backends = append(backends, ids[(i*5+k)%len(ids)])
			}
			do(wire.On(hnsd.LoadBalancer, wire.Close),
				do(wire.On(hnsd.LoadBalancer, wire.Create), 0,
					balancer(fmt.Sprintf("10.96.%d.%d", i>>8, i&255), 80, backends...)).Handle, "")
		}
	})

	listed := s.objects.State().List(hnsd.LoadBalancer)
	phase("list", len(listed), func() {
		do(wire.On(hnsd.LoadBalancer, wire.Enumerate), 0, "")
		for _, o := range listed {
			a, _ := s.answer(ctx, who, wire.Request{Op: wire.On(hnsd.LoadBalancer, wire.Open), GUID: o.ID},
				nil)
			do(wire.On(hnsd.LoadBalancer, wire.Query), a.Handle, "")
			do(wire.On(hnsd.LoadBalancer, wire.Close), a.Handle, "")
		}
	})

	some := min(100, len(listed), len(ids))
	phase("modify", some, func() {
		for i := range some {
			a, _ := s.answer(ctx, who,
				wire.Request{Op: wire.On(hnsd.LoadBalancer, wire.Open), GUID: listed[i].ID}, nil)
			do(wire.On(hnsd.LoadBalancer, wire.Modify), a.Handle,
				balancer(fmt.Sprintf("10.96.%d.%d", i>>8, i&255), 80, ids[i]))
		}
	})

	phase("delete", some, func() {
		for i := range some {
			s.answer(ctx, who, wire.Request{Op: wire.On(hnsd.LoadBalancer, wire.Delete), GUID: listed[i].ID},
				nil)
		}
	})
}
