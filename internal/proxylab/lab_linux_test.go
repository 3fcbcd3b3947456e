package proxylab_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	lab "porthole.dev/porthole/internal/proxylab"
)

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("skipped: a lab needs root")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestProxies lets our proxy and upstream's serve the same objects on hosts side by side: a pod of the host, one of a
// node, and the outside get the answers that the services promise, and the comparison with HNS agrees.
func TestProxies(t *testing.T) {
	ctx := t.Context()
	l, err := lab.New(ctx, lab.Options{Bin: "../../bin", Prefix: "labtest"})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	node, err := l.AddNode(ctx, "lin1")
	must(t, err)
	far, err := node.Pod("far", netip.Addr{})
	must(t, err)
	serve(t, far.Place)

	for _, run := range []struct {
		name  string
		start func(*lab.Host) (*lab.Process, error)
	}{
		{"ours", func(h *lab.Host) (*lab.Process, error) { return h.RunOurs("--v=2") }},
		{"upstream", func(h *lab.Host) (*lab.Process, error) { return h.RunUpstream("--v=2") }},
	} {
		t.Run(run.name, func(t *testing.T) {
			begin := time.Now()
			h, err := l.AddHost(ctx, lab.HostOptions{Name: run.name, Isolated: true})
			must(t, err)
			near, err := h.Pod(ctx, "near", netip.Addr{})
			must(t, err)
			serve(t, near.Place)
			t.Logf("a host and a pod took %v", time.Since(begin))
			if r, err := near.Ask("tcp", netip.AddrPortFrom(far.Addr, 8080), 2*time.Second); err != nil || r.Client.Addr() != near.Addr {
				t.Fatalf("pod to pod: %+v, %v", r, err)
			}
			web, err := h.ApplyService(ctx, lab.Service(run.name, lab.Port("http", "tcp", 80, 8080), lab.Port("dns", "udp", 53, 8080)))
			must(t, err)
			backends := append(lab.On(h.Name, near.Addr), lab.On(node.Name, far.Addr)...)
			must(t, h.ApplySlice(ctx, lab.Slice(web, "-a", backends...)))
			begin = time.Now()
			p, err := run.start(h)
			must(t, err)
			if err := h.Settled(ctx, 60*time.Second, lab.Foreign{}); err != nil {
				t.Fatalf("%v\n%s", err, p.LogTail(4000))
			}
			t.Logf("the proxy took %v", time.Since(begin))
			seen := map[string]bool{}
			for range 40 {
				for network, port := range map[string]uint16{"tcp": 80, "udp": 53} {
					r, err := near.Ask(network, lab.ClusterAddr(web, port), 2*time.Second)
					must(t, err)
					seen[network+" "+r.Name] = true
				}
			}
			if len(seen) != 4 {
				t.Errorf("40 connections and datagrams found only %v", seen)
			}
			conn, err := near.Open(lab.ClusterAddr(web, 80), 2*time.Second)
			must(t, err)
			defer conn.Close()
			must(t, conn.Echo(time.Second))
			must(t, h.ApplySlice(ctx, lab.Slice(web, "-a", lab.On(node.Name, far.Addr)...)))
			must(t, h.Settled(ctx, 20*time.Second, lab.Foreign{}))
			p.Kill()
			must(t, h.Close())
		})
	}
}

func serve(t *testing.T, p lab.Place) {
	t.Helper()
	s, err := p.Serve(8080)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
