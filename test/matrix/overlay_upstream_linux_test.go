package matrix

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxylab"
)

var upstreamToo = flag.Bool("upstream", false,
	"ask what takes long too: upstream's kube-proxy.exe, and all questions, on an overlay network")

// upstreamMisses are the questions that upstream's kube-proxy.exe 1.36.3 does not answer as ours does on an overlay
// network, each with the reason.
var upstreamMisses = map[string]string{
	"node port from the node tcp": noNodePortInside,
	"node port from the node udp": noNodePortInside,
}

const noNodePortInside = "HNS refuses a node port to programs of the node itself; ours makes another load balancer, with the node's address, for them (--node-access)"

// TestOverlayUpstream asks of upstream's kube-proxy.exe what TestOverlay asks of ours. What it does not do is in
// upstreamMisses; a question that it answers against that list fails too.
func TestOverlayUpstream(t *testing.T) {
	if !*upstreamToo {
		t.Skip("takes long: -args -upstream, or `make test-peers`")
	}
	if _, err := os.Stat(filepath.Join("../../bin", proxylab.Upstream)); err != nil {
		t.Fatalf("%v: run `make upstream-proxy` first", err)
	}
	o := newOverlay(t)
	for _, dsr := range []bool{true, false} {
		t.Run(fmt.Sprintf("dsr %t", dsr), func(t *testing.T) { o.askUpstream(t, dsr) })
	}
}

func (o *overlay) askUpstream(t *testing.T, dsr bool) {
	if o.proxy != nil {
		o.proxy.Kill()
	}
	must(t, o.host.HNS.ResetStats(t.Context()))
	flags := []string{"--source-vip=" + o.source.String(), "--v=2", "--iptables-sync-period=1s", "--enable-dsr=false"}
	if dsr {
		flags[len(flags)-1] = "--enable-dsr=true"
	}
	var err error
	o.proxy, err = o.host.RunUpstream(flags...)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("upstream's kube-proxy.exe said\n%s", o.proxy.LogTail(3000))
		}
	})

	// It deletes the load balancers of the one before first.
	must(t, wait.For(t.Context(), time.Minute, "its first load balancer", func(ctx context.Context) error {
		stats, err := o.host.HNS.Stats(ctx)
		if err == nil && stats.Calls["HcnCreateLoadBalancer"] == 0 {
			err = fmt.Errorf("it has called %v", stats.Calls)
		}
		return err
	}))
	must(t, o.host.Settled(t.Context(), time.Minute, proxylab.Foreign{}))

	answers := map[string]error{}
	for _, q := range o.questions(dsr) {
		answers[q.String()] = wait.For(t.Context(), 4*time.Second, q.what,
			func(context.Context) error { return q.once(q.network) })
	}
	for _, network := range []string{"tcp", "udp"} {
		answers["affinity "+network] = o.affinity(network, dsr)
	}
	for name := range upstreamMisses {
		if _, asked := answers[name]; !asked {
			t.Errorf("upstreamMisses has %q, which is no question", name)
		}
	}
	for name, err := range answers {
		reason := upstreamMisses[name]
		switch {
		case err != nil && reason == "":
			t.Errorf("%s: %v", name, err)
		case err == nil && reason != "":
			t.Errorf("%s works, and should not: %s", name, reason)
		case err != nil:
			t.Logf("%s: as expected, %v: %s", name, err, reason)
		}
	}
}
