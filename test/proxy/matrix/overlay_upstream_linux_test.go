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
	"porthole.dev/porthole/test/proxy/lab"
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
		t.Skip("takes long: -args -upstream, or `make test-proxy`")
	}
	if _, err := os.Stat(filepath.Join(bin, lab.Upstream)); err != nil {
		t.Fatalf("%v: run `make upstream-proxy` first", err)
	}
	o := newOverlay(t)
	for _, dsr := range []bool{true, false} {
		o.Sub(fmt.Sprintf("dsr %t", dsr), func() { o.askUpstream(dsr) })
	}
}

func (o *overlay) askUpstream(dsr bool) {
	o.Must(o.Host.HNS.ResetStats(o.Context()))
	o.RunUpstream("--source-vip="+o.source.String(), "--iptables-sync-period=1s", fmt.Sprintf("--enable-dsr=%t", dsr))
	// It deletes the load balancers of the one before first.
	o.Until("its first load balancer", time.Minute, func() error {
		if stats := o.Stats(); stats.Calls["HcnCreateLoadBalancer"] == 0 {
			return fmt.Errorf("it has called %v", stats.Calls)
		}
		return nil
	})
	o.Settled(time.Minute)

	answers := map[string]error{}
	for _, q := range o.questions(dsr) {
		answers[q.String()] = wait.For(o.Context(), 4*time.Second, q.what,
			func(context.Context) error { return q.once(q.network) })
	}
	for _, network := range []string{"tcp", "udp"} {
		answers["affinity "+network] = o.affinity(network, dsr)
	}
	for name := range upstreamMisses {
		if _, asked := answers[name]; !asked {
			o.Errorf("upstreamMisses has %q, which is no question", name)
		}
	}
	for name, err := range answers {
		reason := upstreamMisses[name]
		switch {
		case err != nil && reason == "":
			o.Errorf("%s: %v", name, err)
		case err == nil && reason != "":
			o.Errorf("%s works, and should not: %s", name, reason)
		case err != nil:
			o.Logf("%s: as expected, %v: %s", name, err, reason)
		}
	}
}
