package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxylab"
)

// pair is the two nodes under test, one API server, and what it holds.
type pair struct {
	lab            *proxylab.Lab
	host           *proxylab.Host
	windows, linux *side
	matrix, all    []entry // all has matrix as its beginning
	many           entry   // loaded only by its test
	overlay        bool    // the Windows node is on an overlay network

	cells  []cell
	sticky map[cell]bool
	l      map[cell]outcome // the Linux side's
}

// TestMatrix asks every question of both nodes and compares.
// Rows 1.03, 1.77, 1.79, 1.82.
func TestMatrix(t *testing.T) {
	p := newPair(t, "")
	t.Run("l2bridge with dsr", func(t *testing.T) {
		p.compare(t, l2bridgeKnown(), "--enable-dsr=true", "--node-access")
	})
	t.Run("l2bridge without dsr", func(t *testing.T) {
		p.compare(t, append(l2bridgeKnown(), withoutDSR()...), "--enable-dsr=false", "--node-access")
	})
}

// TestMatrixOverlay asks the same of a Windows node on an overlay network, whose other node is behind VXLAN.
func TestMatrixOverlay(t *testing.T) {
	if !*upstreamToo {
		t.Skip("takes long: -args -upstream, or `make test-peers`")
	}
	p := newPair(t, "Overlay")
	p.compare(t, overlayKnown(), "--enable-dsr=true", "--node-access", "--overlay-relay", "--source-vip=10.244.1.2")
}

// newPair starts everything and waits until the Linux node serves. network is the type of the Windows node's; "" is
// L2Bridge.
func newPair(t *testing.T, network string) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	p, n := &pair{overlay: network != ""}, &numbering{}
	p.matrix = matrixEntries(n)
	p.all = append(append(slices.Clone(p.matrix), specialEntries(n)...), sentinel(n))
	p.many = manyEntry(n)
	p.cells, p.sticky = cellsOf(p.all)

	var err error
	p.lab, err = proxylab.New(ctx, proxylab.Options{Bin: built(t), Prefix: "phmw"})
	must(t, err)
	t.Cleanup(func() { must(t, p.lab.Close()) })
	p.host, err = p.lab.AddHost(ctx, proxylab.HostOptions{Name: nodeName, NetworkType: network})
	must(t, err)
	p.windows = dress(t, "the Windows node", p.lab, member{p.host.Place, hostPods(ctx, p.host)},
		p.remote(t, ctx, network))
	p.linux = linuxSide(t, ctx, p.lab)
	if !p.overlay {
		manyServers(t, p.windows)
	}
	began := time.Now()
	must(t, load(ctx, p.lab.Client, p.all))
	t.Logf("%d services were created in %v", len(p.all), time.Since(began))
	p.linux.await(t, time.Minute, sentinelCells(p.all))
	began = time.Now()
	p.l = p.linux.ask(p.cells, fewTimes)
	t.Logf("the Linux node was asked %d questions in %v", len(p.cells), time.Since(began))
	return p
}

// remote returns the other node of the Windows side: a Linux node, or in an overlay a host that is a part of it.
func (p *pair) remote(t *testing.T, ctx context.Context, network string) member {
	t.Helper()
	if !p.overlay {
		return linuxMember(t, p.lab, remoteName)
	}
	other, err := p.lab.AddHost(ctx, proxylab.HostOptions{Name: remoteName, NetworkType: network, NoWine: true})
	must(t, err)
	must(t, p.lab.JoinOverlay(ctx, p.host, other))
	return member{other.Place, hostPods(ctx, other)}
}

// linuxSide is a network of its own with the same addresses, where upstream's kube-proxy serves the same objects.
func linuxSide(t *testing.T, ctx context.Context, of *proxylab.Lab) *side {
	t.Helper()
	lab, err := proxylab.New(ctx, proxylab.Options{Bin: built(t), Prefix: "phml", ControlPlane: of})
	must(t, err)
	t.Cleanup(func() { must(t, lab.Close()) })
	node, err := lab.AddNode(ctx, nodeName)
	must(t, err)
	s := dress(t, "the Linux node", lab, member{node.Place, node.Pod}, linuxMember(t, lab, remoteName))
	proxy, err := node.RunUpstream(map[string]any{"mode": "nftables"})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("upstream's kube-proxy said\n%s", proxy.LogTail(3000))
		}
	})
	return s
}

// compare runs our proxy with the flags and asks: what was there when it started, what it must tell, and what it makes
// of a change of every service.
func (p *pair) compare(t *testing.T, list []known, flags ...string) {
	proxy, err := p.host.RunOurs(flags...)
	must(t, err)
	t.Cleanup(proxy.Stop)
	t.Cleanup(func() { // before the stop
		if t.Failed() {
			// an error shows in the log
			_, status, _ := p.host.Get(context.Background(), proxylab.MetricsPort, "/status")
			t.Logf("kube-proxy.exe said\n%s\nand of its state\n%s", proxy.LogTail(3000),
				status[:min(len(status), 3000)])
		}
	})

	began := time.Now()
	p.windows.await(t, 2*time.Minute, sentinelCells(p.all))
	t.Logf("the last service answers after %v", time.Since(began))
	p.idle(t)
	p.settled(t, "at the start", p.cells, list)
	if !p.overlay { // all its servers are in one place, to which a route leads
		t.Run("more backends than HNS takes", func(t *testing.T) {
			testMany(t, p, p.many)
		})
	}
	t.Run("warnings", func(t *testing.T) {
		for _, name := range []string{"sctp-beside-others", "source-ranges-without-client"} {
			warned(t, p.lab.Client, name)
		}
	})

	t.Run("affinity", func(t *testing.T) {
		for _, name := range []string{"affinity", "affinity-local"} {
			testSticky(t, p.windows, byName(t, p.all, name))
		}
	})
	p.matrix = rotated(p.matrix, 7)
	must(t, update(t.Context(), p.lab.Client, p.matrix))
	cells, _ := cellsOf(p.matrix)
	maps.Copy(p.l, p.linux.ask(cells, fewTimes))

	p.idle(t)
	p.settled(t, "after a change of every service", cells, list)
	for _, k := range list {
		if k.used == 0 {
			t.Errorf("this difference is said to be known, but there was none: %s", k.reason)
		}
	}
}

// idle waits until the proxy says that nothing is left to do, so that questions and work do not slow each other down.
// It may say so before it has seen the last change: then settle asks again.
func (p *pair) idle(t *testing.T) {
	t.Helper()
	began := time.Now()
	must(t, wait.For(t.Context(), 2*time.Minute, "kube-proxy.exe to have no work", func(ctx context.Context) error {
		_, body, err := p.host.Get(ctx, proxylab.MetricsPort, "/status")
		if err != nil {
			return err
		}
		var status struct {
			Wanted   int
			Services struct{ Pending int }
		}
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			return err
		}
		if status.Wanted == 0 || status.Services.Pending > 0 {
			return fmt.Errorf("%d services are pending", status.Services.Pending)
		}
		return nil
	}))
	t.Logf("idle after %v", time.Since(began))
}

func (p *pair) settled(t *testing.T, when string, cells []cell, list []known) {
	t.Run(when, func(t *testing.T) {
		began := time.Now()
		found := settle(p.windows, p.linux, p.l, cells, p.sticky, list)
		t.Logf("asked for %v", time.Since(began))
		report(t, found, len(cells))
	})
}

// sentinelCells are the questions about the last entry that have an answer on every node.
func sentinelCells(entries []entry) []cell {
	cells, _ := cellsOf(entries[len(entries)-1:])
	return slices.DeleteFunc(cells, func(c cell) bool { return c.client != fromPod || c.kind != clusterIP })
}
