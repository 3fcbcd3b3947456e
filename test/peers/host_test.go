package peers

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	lab "porthole.dev/porthole/test/proxylab"
)

const (
	targetPort = 8080
	// proxyName is the file name of both proxies, as fault rules see it.
	proxyName = "kube-proxy.exe"
	connCount = 10
)

// stage is one host with a proxy on it, the pods and services that every scenario begins with, and connections that are
// open through the proxy's load balancers while things go wrong.
//
//	client ──10 connections──▶ web (tcp 80, udp 53): near1, near2 on the host, far1, far2 on a Linux node
//	                           lb  (cluster, node port, ingress):  near1, far1
//	                           sticky (client affinity):           near2, far2
type stage struct {
	control
	ours bool

	client, near1, near2 *lab.Pod
	web, lb, sticky      *corev1.Service
	proxy                *lab.Process
	flags                []string
	foreign              lab.Foreign
	watch                *watch
}

// control is what a scenario does to the HNS of its host, and asks it, past the proxy.
type control struct {
	t    *testing.T
	ctx  context.Context
	host *lab.Host

	noisy bool // one in ten of the proxy's calls fails besides
	rules int  // faults that are set, besides those of noisy
}

func newStage(t *testing.T, ours bool, o lab.HostOptions) *stage {
	s := &stage{control: control{t: t, ctx: t.Context(), noisy: ours}, ours: ours}
	o.Isolated = true
	var err error
	s.host, err = world.AddHost(s.ctx, o)
	s.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		if err := s.host.Close(); err != nil {
			t.Error(err)
		}
	})

	for name, p := range map[string]**lab.Pod{"client": &s.client, "near1": &s.near1, "near2": &s.near2} {
		*p, err = s.host.Pod(s.ctx, name, netip.Addr{})
		s.must(err)
		server, err := (*p).Serve(targetPort)
		s.must(err)
		t.Cleanup(func() { server.Close() })
		s.foreign.Endpoints = append(s.foreign.Endpoints, (*p).Endpoint)
	}

	s.services(o.NetworkType == "Overlay")
	return s
}

// services creates the objects that every scenario begins with. The Linux node is not part of Overlay networks; its
// pods are left out then.
func (s *stage) services(alone bool) {
	far := func(near *lab.Pod, far ...*lab.Pod) []*lab.Pod {
		if alone {
			return []*lab.Pod{near}
		}
		return append([]*lab.Pod{near}, far...)
	}
	s.web = s.service("web", lab.Port("http", "tcp", 80, targetPort), lab.Port("dns", "udp", 53, targetPort))
	s.slice(s.web, s.backends(append(far(s.near1, world.far[0], world.far[1]), s.near2)...)...)
	doc := lab.Service(s.name("lb"), lab.Port("http", "tcp", 80, targetPort))
	doc.Spec.Type = corev1.ServiceTypeLoadBalancer
	doc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: fmt.Sprintf("198.51.100.%d", s.host.Pods.Addr().As4()[2])}}
	s.lb = s.apply(doc)
	s.slice(s.lb, s.backends(far(s.near1, world.far[0])...)...)
	doc = lab.Service(s.name("sticky"), lab.Port("http", "tcp", 80, targetPort))
	doc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	s.sticky = s.apply(doc)
	s.slice(s.sticky, s.backends(far(s.near2, world.far[1])...)...)
}

func (c *control) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (s *stage) name(service string) string { return s.host.Name + "-" + service }

func (s *stage) service(name string, ports ...corev1.ServicePort) *corev1.Service {
	s.t.Helper()
	return s.apply(lab.Service(s.name(name), ports...))
}

func (s *stage) apply(doc *corev1.Service) *corev1.Service {
	s.t.Helper()
	made, err := s.host.ApplyService(s.ctx, doc)
	s.must(err)
	return made
}

// slice replaces the backends of a service.
func (s *stage) slice(service *corev1.Service, backends ...lab.Backend) {
	s.t.Helper()
	s.must(s.host.ApplySlice(s.ctx, lab.Slice(service, "-a", backends...)))
}

func (s *stage) rawSlice(e *discoveryv1.EndpointSlice) {
	s.t.Helper()
	s.must(s.host.ApplySlice(s.ctx, e))
}

// backends are pods of the host and of the Linux node, all ready.
func (s *stage) backends(pods ...*lab.Pod) []lab.Backend {
	var list []lab.Backend
	for _, p := range pods {
		node := world.node.Name
		if s.host.Pods.Contains(p.Addr) {
			node = s.host.Name
		}
		list = append(list, lab.On(node, p.Addr)...)
	}
	return list
}

// upstreamPeriod is how often upstream's proxy is told to look: its failures then show in seconds instead of minutes.
const upstreamPeriod = time.Second

// start runs the proxy; the former one must have ended.
func (s *stage) start() {
	s.t.Helper()
	var err error
	if s.ours {
		s.proxy, err = s.host.RunOurs(append([]string{"--v=2"}, s.flags...)...)
	} else {
		s.proxy, err = s.host.RunUpstream(append([]string{"--v=2", "--iptables-sync-period=" + upstreamPeriod.String()},
			s.flags...)...)
	}
	s.must(err)
}

// begin starts the proxy, waits until all is programmed, and opens the connections.
func (s *stage) begin() {
	s.t.Helper()
	s.faults()
	s.start()
	s.settle(60 * time.Second)
	s.connect()
}

func (s *stage) settle(within time.Duration) {
	s.t.Helper()
	s.must(s.host.Settled(s.ctx, within, s.foreign))
}

// faults sets the rules; our proxy gets those on top that make one call in ten fail. Rules that were set before must
// have been used: a fault that no call met tests nothing.
func (c *control) faults(rules ...any) {
	c.t.Helper()
	c.used()
	c.rules = len(rules)
	if c.noisy && *noise > 0 {
		// E_FAIL
		rules = append(rules, fault{"function": "Hcn*", "program": proxyName, "action": "fail", "code": 0x80004005,
			"probability": *noise, "seed": time.Now().UnixNano() % 1000000})
	}
	c.must(c.host.HNS.Faults(c.ctx, rules...))
}

// used checks that the present rules were used.
func (c *control) used() {
	c.t.Helper()
	if c.rules == 0 {
		return
	}
	hits, err := c.host.HNS.Hits(c.ctx)
	c.must(err)
	for i, n := range hits[:c.rules] {
		if n == 0 {
			c.t.Errorf("fault %d of %d was never used", i+1, c.rules)
		}
	}
}

// fault is a rule of emulator/hnsd/serve.
type fault = map[string]any

func (c *control) lose(what map[string]any) {
	c.t.Helper()
	_, err := c.host.HNS.Lose(c.ctx, what)
	c.must(err)
}

// hns changes the state of the HNS service (POST /service).
func (c *control) hns(what map[string]any) {
	c.t.Helper()
	c.must(c.host.HNS.Control(c.ctx, "POST", "/service", what, nil))
}

// calls counts a function's calls by the proxy so far.
func (c *control) calls(function string) int {
	c.t.Helper()
	st, err := c.host.HNS.Stats(c.ctx)
	c.must(err)
	return st.Programs[proxyName][function]
}

// done counts those of a function's calls that did not fail, as one in ten may; nobody else makes any.
func (c *control) done(function string) int {
	c.t.Helper()
	st, err := c.host.HNS.Stats(c.ctx)
	c.must(err)
	return st.Calls[function] - st.Errors[function]
}

// syncs waits until upstream's proxy has looked at HNS n times more, or to its end.
func (s *stage) syncs(n int) {
	s.t.Helper()
	from := s.calls("HcnEnumerateNetworks")
	s.must(wait.For(s.ctx, time.Duration(n)*10*time.Second, "the proxy to look at HNS", func(context.Context) error {
		if ended, _ := s.proxy.Ended(); ended {
			return nil
		}
		if now := s.calls("HcnEnumerateNetworks"); now < from+2*n { // two for each sync (spec: call sequences)
			return fmt.Errorf("%d lookups", now-from)
		}
		return nil
	}))
}

// diff is how HNS differs from what the services want.
func (s *stage) diff() []string {
	s.t.Helper()
	d, err := s.host.Diff(s.ctx, s.foreign)
	s.must(err)
	return d
}

// differs returns a difference that contains part and has lasted for n syncs, or "".
func (s *stage) differs(n int, part string) string {
	s.t.Helper()
	s.syncs(n)
	for _, d := range s.diff() {
		if strings.Contains(d, part) {
			return fmt.Sprintf("after %d syncs: %s", n, d)
		}
	}
	return ""
}

// answers asks every kind of frontend from the client's pod.
func (s *stage) answers() {
	s.t.Helper()
	if s.client == nil {
		return // its network is gone
	}
	for _, q := range []struct {
		network string
		to      netip.AddrPort
	}{
		{"tcp", lab.ClusterAddr(s.web, 80)}, {"udp", lab.ClusterAddr(s.web, 53)},
		{"tcp", lab.ClusterAddr(s.lb, 80)}, {"tcp", lab.ClusterAddr(s.sticky, 80)},
	} {
		if _, err := s.client.Ask(q.network, q.to, 3*time.Second); err != nil {
			flows, _ := exec.CommandContext(s.ctx, "nsenter", "--net="+s.host.Netns, "conntrack", "-L", "-d",
				q.to.Addr().String()).CombinedOutput()
			s.t.Errorf("%s %s does not answer: %v; the host's flows:\n%s", q.network, q.to, err, flows)
		}
	}
}

// frontend is a service's cluster address as lab.Host.LoadBalancers names it.
func frontend(service *corev1.Service, protocol, port int) string {
	return fmt.Sprintf("%s/%d/%d", service.Spec.ClusterIP, protocol, port)
}

// lbs returns the ids of the load balancers by frontend.
func (c *control) lbs() map[string]string {
	c.t.Helper()
	ids, err := c.host.LoadBalancers(c.ctx)
	c.must(err)
	return ids
}

func (s *stage) dump() {
	if s.proxy != nil {
		ended, err := s.proxy.Ended()
		s.t.Logf("the proxy has ended: %t, %v; its log:\n%s", ended, err, s.proxy.LogTail(6000))
	}
}

// echoTime is when a connection counts as broken. TCP sends again after twice the time at each loss, so one that was
// interrupted for 4 s may be silent for 7.
const echoTime = 15 * time.Second

// watch keeps connections in use and remembers those that break.
type watch struct {
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	broken []string
	echoes int
}

// connect opens the connections through web's address.
func (s *stage) connect() {
	s.t.Helper()
	w := &watch{stop: make(chan struct{})}
	var conns []*lab.Conn
	for range connCount {
		c, err := s.client.Open(lab.ClusterAddr(s.web, 80), 5*time.Second)
		s.must(err)
		conns = append(conns, c)
	}
	for _, c := range conns {
		w.done.Go(func() { w.use(c) })
	}
	s.watch = w
	s.t.Cleanup(func() { w.end() })
}

func (w *watch) use(c *lab.Conn) {
	defer c.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		err := c.Echo(echoTime)
		w.mu.Lock()
		w.echoes++
		if err != nil {
			w.broken = append(w.broken, err.Error())
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// end stops using the connections and gives what broke. Again gives the same.
func (w *watch) end() []string {
	w.mu.Lock()
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.mu.Unlock()
	w.done.Wait()
	return slices.Clone(w.broken)
}

func target(p *lab.Pod) netip.AddrPort { return netip.AddrPortFrom(p.Addr, targetPort) }
