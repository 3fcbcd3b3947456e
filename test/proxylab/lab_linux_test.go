package proxylab_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	lab "porthole.dev/porthole/test/proxylab"
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
		name, external string
		start          func(*lab.Host) (*lab.Process, error)
	}{
		{"ours", "203.0.113.21", func(h *lab.Host) (*lab.Process, error) {
			return h.RunOurs("--node-access", "--v=2")
		}},
		{"upstream", "203.0.113.22", func(h *lab.Host) (*lab.Process, error) { return h.RunUpstream("--v=2") }},
	} {
		t.Run(run.name, func(t *testing.T) {
			if _, err := os.Stat("../../bin/bundle/windows/kube-proxy.exe"); run.name == "upstream" && err != nil {
				t.Skip("upstream's kube-proxy.exe is not built: make upstream-proxy (make test-peers does it)")
			}
			begin := time.Now()
			h, err := l.AddHost(ctx, lab.HostOptions{Name: run.name, Isolated: true})
			must(t, err)
			near, err := h.Pod(ctx, "near", netip.Addr{})
			must(t, err)
			serve(t, near.Place)
			t.Logf("a host and a pod took %v", time.Since(begin))
			if r, err := near.Ask("tcp", netip.AddrPortFrom(far.Addr, 8080), 2*time.Second); err != nil ||
				r.Client.Addr() != near.Addr {
				t.Fatalf("pod to pod: %+v, %v", r, err)
			}
			s := lab.Service(run.name, lab.Port("http", "tcp", 80, 8080), lab.Port("dns", "udp", 53, 8080))
			s.Spec.Type, s.Spec.ExternalIPs = "NodePort", []string{run.external}
			web, err := h.ApplyService(ctx, s)
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
			fromHost(t, h, web, run.name == "ours")
			if t.Failed() {
				_, status, _ := h.Get(ctx, lab.MetricsPort, "/status") // an error shows in the log
				t.Fatalf("kube-proxy.exe says %s\n%s", status, p.LogTail(4000))
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

// fromHost asks as a program of the host does: the cluster IP answers, and so do, with our proxy, the node port and the
// external IP.
func fromHost(t *testing.T, h *lab.Host, web *corev1.Service, all bool) {
	t.Helper()
	external := netip.MustParseAddr(web.Spec.ExternalIPs[0])

	for i, network := range []string{"tcp", "udp"} {
		p := web.Spec.Ports[i]
		for _, c := range []struct {
			what string
			at   netip.AddrPort
			want bool
		}{
			{"cluster IP", lab.ClusterAddr(web, uint16(p.Port)), true},
			{"node port", netip.AddrPortFrom(h.Addr, uint16(p.NodePort)), all},
			{"external IP", netip.AddrPortFrom(external, uint16(p.Port)), all},
		} {
			if !c.want {
				continue
			}
			// What serves the host itself comes after what Settled waits for.
			err := wait.For(t.Context(), 10*time.Second, "an answer", func(context.Context) error {
				_, err := h.Place.Ask(network, c.at, 2*time.Second)
				return err
			})
			if err != nil {
				t.Errorf("a program of the host asks the %s by %s: %v", c.what, network, err)
			}
		}
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
