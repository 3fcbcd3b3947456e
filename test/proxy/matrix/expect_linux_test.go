package matrix

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/test/proxy/lab"
)

// kinds is a lab in which our proxy runs on one host, and what is expected is written down with each question.
type kinds struct{ *lab.Stage }

func newKinds(t *testing.T, prefix string) kinds {
	t.Helper()
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // external IPs are deprecated, and here to stay
	return kinds{lab.NewStage(t, lab.Options{Bin: bin, Prefix: prefix})}
}

// serveTwice gives a place two servers; the second one's name has its port.
func serveTwice(s *lab.Stage, p lab.Place) {
	s.Helper()
	s.Serve(p, mainPort)
	p.Name += fmt.Sprintf(":%d", otherPort)
	s.Serve(p, otherPort)
}

// pod makes a pod with two servers on a host or node.
func (k kinds) pod(on lab.PodMaker, name string) *lab.Pod {
	k.Helper()
	p := k.Pod(on, name)
	serveTwice(k.Stage, p.Place)
	return p
}

// run starts our proxy on the host in place of the one that runs, and waits until HNS is as it must be.
func (k kinds) run(flags ...string) {
	k.Helper()
	k.RunOurs(append(flags, "--node-access")...)
	k.settled()
}

// settled waits until HNS is as the services want it, and in all details, affinity and flags among them, as the proxy
// does; and the kernel as HNS.
func (k kinds) settled() {
	k.Helper()
	k.Settled(20 * time.Second)
	k.Until("the proxy to have nothing to do", 20*time.Second, func() error {
		var d health.Diff
		err := k.Read("/diff", &d)
		if err == nil && (d.Right == 0 || len(d.Operations) > 0) {
			err = fmt.Errorf("%+v", d)
		}
		return err
	})
	drift, err := k.Host.HNS.Verify(k.Context())
	k.Must(err)
	if len(drift) > 0 {
		k.Errorf("the kernel is not as HNS says: %v", drift)
	}
}

// restart kills the proxy and starts it again: it must find nothing to write.
func (k kinds) restart(flags ...string) {
	k.Helper()
	k.Proxy.Kill()
	k.Must(k.Host.HNS.ResetStats(k.Context()))
	k.run(flags...)
	k.Until("kube-proxy.exe to be ready", time.Minute, k.Page(lab.HealthPort, "/readyz", 200))
	if stats := k.Stats(); stats.Writes > 0 || len(stats.Calls) == 0 {
		k.Errorf("a restart with everything right made %d writes: %v", stats.Writes, stats.Calls)
	}
}

// want is who answers a client: each of these servers, and nobody else; without one nobody does. as is the client's
// address that they see.
type want struct {
	what string
	from lab.Place
	at   netip.AddrPort
	by   []string
	as   netip.Addr
}

// check asks over TCP and UDP, at least six times and until every server has answered; with 40 questions one of two is
// missed once in 10^12.
func (w want) check(t *testing.T) {
	t.Helper()
	for _, network := range []string{"tcp", "udp"} {
		w.over(t, network)
	}
}

// over asks, and again while the answers are wrong, for a few seconds: the flows of UDP follow a change with a delay.
func (w want) over(t *testing.T, network string) {
	t.Helper()
	err := wait.For(t.Context(), 4*time.Second, w.what, func(context.Context) error { return w.once(network) })
	if err != nil {
		t.Error(err)
	}
}

func (w want) once(network string) error {
	asked := fmt.Sprintf("%s asks %s %s", w.from.Name, network, w.at)
	if len(w.by) == 0 {
		if r, err := w.from.Ask(network, w.at, patience); err == nil {
			return fmt.Errorf("%s: %s answers and nobody should", asked, r.Name)
		}
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i < 6 || i < 40 && len(seen) < len(w.by); i++ {
		r, err := w.from.Ask(network, w.at, 2*muchPatience)
		if err != nil {
			return err
		}
		seen[r.Name] = true
		if !slices.Contains(w.by, r.Name) || r.Client.Addr() != w.as {
			return fmt.Errorf("%s: %s answers, who sees %s; expected %s, %s", asked, r.Name, r.Client.Addr(),
				strings.Join(w.by, " or "), w.as)
		}
	}
	if len(seen) < len(w.by) {
		return fmt.Errorf("%s: only %v answer of %v", asked, seen, w.by)
	}
	return nil
}
