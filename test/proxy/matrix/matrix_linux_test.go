package matrix

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/test/proxy/lab"
)

// pair is the two nodes under test, one API server, and what it holds.
type pair struct {
	*lab.Stage
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
	p.Sub("l2bridge with dsr", func() {
		p.compare(l2bridgeKnown(), "--enable-dsr=true", "--node-access")
	})
	p.Sub("l2bridge without dsr", func() {
		p.compare(append(l2bridgeKnown(), withoutDSR()...), "--enable-dsr=false", "--node-access")
	})
}

// TestMatrixOverlay asks the same of a Windows node on an overlay network, whose other node is behind VXLAN.
func TestMatrixOverlay(t *testing.T) {
	if !*upstreamToo {
		t.Skip("takes long: -args -upstream, or `make test-proxy`")
	}
	p := newPair(t, "Overlay")
	p.compare(overlayKnown(), "--enable-dsr=true", "--node-access", "--overlay-relay", "--source-vip=10.244.1.2")
}

// newPair starts everything and waits until the Linux node serves. network is the type of the Windows node's; "" is
// L2Bridge.
func newPair(t *testing.T, network string) *pair {
	t.Helper()
	p, n := &pair{Stage: lab.NewStage(t, lab.Options{Bin: bin, Prefix: "phmw"}), overlay: network != ""}, &numbering{}
	p.matrix = matrixEntries(n)
	p.all = append(append(slices.Clone(p.matrix), specialEntries(n)...), sentinel(n))
	p.many = manyEntry(n)
	p.cells, p.sticky = cellsOf(p.all)

	p.AddHost(lab.HostOptions{Name: nodeName, NetworkType: network})
	p.windows = dress(p.Stage, "the Windows node", member{p.Host.Place, p.Host}, p.remote(network))
	p.linux = linuxSide(t, p.Lab)
	if !p.overlay {
		manyServers(p.Stage, p.windows)
	}
	began := time.Now()
	p.Must(load(t.Context(), p.Lab, p.all))
	t.Logf("%d services were created in %v", len(p.all), time.Since(began))
	p.linux.await(p.Stage, time.Minute, sentinelCells(p.all))
	began = time.Now()
	p.l = p.linux.ask(p.cells, fewTimes)
	t.Logf("the Linux node was asked %d questions in %v", len(p.cells), time.Since(began))
	return p
}

// remote returns the other node of the Windows side: a Linux node, or in an overlay a host that is a part of it.
func (p *pair) remote(network string) member {
	p.Helper()
	if !p.overlay {
		return linuxMember(p.Stage, remoteName)
	}
	other := p.AddHost(lab.HostOptions{Name: remoteName, NetworkType: network, NoWine: true})
	p.Must(p.Lab.JoinOverlay(p.Context(), p.Host, other))
	return member{other.Place, other}
}

// linuxSide is a network of its own with the same addresses, where upstream's kube-proxy serves the same objects.
func linuxSide(t *testing.T, of *lab.Lab) *side {
	t.Helper()
	s := lab.NewStage(t, lab.Options{Bin: bin, Prefix: "phml", ControlPlane: of})
	node, err := s.Lab.AddNode(t.Context(), nodeName)
	s.Must(err)
	linux := dress(s, "the Linux node", member{node.Place, node}, linuxMember(s, remoteName))
	proxy, err := node.RunUpstream(map[string]any{"mode": "nftables"})
	s.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("upstream's kube-proxy said\n%s", proxy.LogTail(3000))
		}
	})
	return linux
}

// compare runs our proxy with the flags and asks: what was there when it started, what it must tell, and what it makes
// of a change of every service.
func (p *pair) compare(list []known, flags ...string) {
	p.RunOurs(flags...)
	began := time.Now()
	p.windows.await(p.Stage, 2*time.Minute, sentinelCells(p.all))
	p.Logf("the last service answers after %v", time.Since(began))
	p.idle()
	p.settled("at the start", p.cells, list)
	if !p.overlay { // all its servers are in one place, to which a route leads
		p.Sub("more backends than HNS takes", func() { p.testMany(p.many) })
	}
	p.Sub("warnings", func() {
		for _, name := range []string{"sctp-beside-others", "source-ranges-without-client"} {
			p.warned(p.byName(name))
		}
	})
	p.Sub("affinity", func() {
		for _, name := range []string{"affinity", "affinity-local"} {
			p.testSticky(p.byName(name))
		}
	})

	p.matrix = rotated(p.matrix, 7)
	for _, e := range p.matrix {
		p.Must(p.Lab.ApplySlice(p.Context(), e.slices[0]))
	}
	cells, _ := cellsOf(p.matrix)
	maps.Copy(p.l, p.linux.ask(cells, fewTimes))

	p.idle()
	p.settled("after a change of every service", cells, list)
	for _, k := range list {
		if k.used == 0 {
			p.Errorf("this difference is said to be known, but there was none: %s", k.reason)
		}
	}
}

// idle waits until the proxy says that nothing is left to do, so that questions and work do not slow each other down.
// It may say so before it has seen the last change: then settle asks again.
func (p *pair) idle() {
	p.Helper()
	began := time.Now()
	p.Until("kube-proxy.exe to have no work", 2*time.Minute, func() error {
		var status struct {
			Wanted   int
			Services struct{ Pending int }
		}
		err := p.Read("/status", &status)
		if err == nil && (status.Wanted == 0 || status.Services.Pending > 0) {
			err = fmt.Errorf("%d services are pending", status.Services.Pending)
		}
		return err
	})
	p.Logf("idle after %v", time.Since(began))
}

func (p *pair) settled(when string, cells []cell, list []known) {
	p.Sub(when, func() {
		began := time.Now()
		found := settle(p.windows, p.linux, p.l, cells, p.sticky, list)
		p.Logf("asked for %v", time.Since(began))
		report(p.T, found, len(cells))
	})
}

// sentinelCells are the questions about the last entry that have an answer on every node.
func sentinelCells(entries []entry) []cell {
	cells, _ := cellsOf(entries[len(entries)-1:])
	return slices.DeleteFunc(cells, func(c cell) bool { return c.client != fromPod || c.kind != clusterIP })
}
