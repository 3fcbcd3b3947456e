package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxy/lab"
	"porthole.dev/porthole/test/proxy/lab/expected"
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
	*lab.Stage
	ctx  context.Context // the test's
	ours bool

	client, near1, near2 *lab.Pod
	web, lb, sticky      *corev1.Service
	flags                []string
	foreign              []string // ids of objects that are not the proxy's
	watch                *watch

	noisy bool // one in ten of the proxy's calls fails besides
	rules int  // faults that are set, besides those of noisy
}

func newStage(t *testing.T, ours bool, o lab.HostOptions) *stage {
	s := &stage{Stage: &lab.Stage{T: t, Lab: world.Lab}, ctx: t.Context(), noisy: ours, ours: ours}
	o.Isolated = true
	s.AddHost(o)
	t.Cleanup(func() {
		if err := s.Host.Close(); err != nil {
			t.Error(err)
		}
	})

	for name, p := range map[string]**lab.Pod{"client": &s.client, "near1": &s.near1, "near2": &s.near2} {
		*p = s.Pod(s.Host, name, targetPort)
		s.foreign = append(s.foreign, (*p).Endpoint)
	}
	s.services(o.NetworkType == "Overlay")
	return s
}

// services creates the objects that every scenario begins with. The Linux node is not part of Overlay networks; its
// pods are left out then.
func (s *stage) services(alone bool) {
	with := func(near *lab.Pod, far ...*lab.Pod) []*lab.Pod {
		if alone {
			far = nil
		}
		return append([]*lab.Pod{near}, far...)
	}
	s.web = s.service("web", lab.Port("http", "tcp", 80, targetPort), lab.Port("dns", "udp", 53, targetPort))
	s.backed(s.web, append(with(s.near1, world.far[0], world.far[1]), s.near2)...)
	doc := lab.Service(s.name("lb"), lab.Port("http", "tcp", 80, targetPort))
	doc.Spec.Type = corev1.ServiceTypeLoadBalancer
	doc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: fmt.Sprintf("198.51.100.%d", s.Host.Pods.Addr().As4()[2])}}
	s.lb = s.Apply(doc)
	s.backed(s.lb, with(s.near1, world.far[0])...)
	doc = lab.Service(s.name("sticky"), lab.Port("http", "tcp", 80, targetPort))
	doc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	s.sticky = s.Apply(doc)
	s.backed(s.sticky, with(s.near2, world.far[1])...)
}

func (s *stage) name(service string) string { return s.Host.Name + "-" + service }

func (s *stage) service(name string, ports ...corev1.ServicePort) *corev1.Service {
	s.Helper()
	return s.Apply(lab.Service(s.name(name), ports...))
}

// backed replaces the backends of a service.
func (s *stage) backed(service *corev1.Service, pods ...*lab.Pod) {
	s.Helper()
	s.Slice(service, "-a", s.backends(pods...)...)
}

// serves makes a service of TCP port 80 with these backends.
func (s *stage) serves(name string, pods ...*lab.Pod) {
	s.Helper()
	s.backed(s.service(name, lab.Port("http", "tcp", 80, targetPort)), pods...)
}

// backends are pods of the host and of the Linux node, all ready.
func (s *stage) backends(pods ...*lab.Pod) []lab.Backend {
	var list []lab.Backend
	for _, p := range pods {
		node := world.node.Name
		if s.Host.Pods.Contains(p.Addr) {
			node = s.Host.Name
		}
		list = append(list, lab.On(node, p.Addr)...)
	}
	return list
}

// upstreamPeriod is how often upstream's proxy is told to look: its failures then show in seconds instead of minutes.
const upstreamPeriod = time.Second

// start runs the proxy, in place of one that still runs.
func (s *stage) start() {
	s.Helper()
	if s.ours {
		s.RunOurs(s.flags...)
	} else {
		s.RunUpstream(append([]string{"--iptables-sync-period=" + upstreamPeriod.String()}, s.flags...)...)
	}
}

// begin starts the proxy, waits until all is programmed, and opens the connections.
func (s *stage) begin() {
	s.Helper()
	s.faults()
	s.start()
	s.settle(60 * time.Second)
	s.connect()
}

func (s *stage) settle(within time.Duration) {
	s.Helper()
	s.Settled(within, s.foreign...)
}

// faults sets rules for the proxy's calls; ours gets one on top that makes one call in ten fail. Rules that were set
// before must have been used: a fault that no call met tests nothing.
func (s *stage) faults(rules ...fault) {
	s.Helper()
	s.used()
	s.rules = len(rules)
	if s.noisy && *noise > 0 {
		// E_FAIL
		rules = append(rules, fault{"function": "Hcn*", "action": "fail", "code": 0x80004005, "probability": *noise,
			"seed": time.Now().UnixNano() % 1000000})
	}
	var of []any
	for _, r := range rules {
		r["program"] = proxyName
		of = append(of, r)
	}
	s.Must(s.Host.HNS.Faults(s.ctx, of...))
}

// used checks that the present rules were used.
func (s *stage) used() {
	s.Helper()
	if s.rules == 0 {
		return
	}
	hits, err := s.Host.HNS.Hits(s.ctx)
	s.Must(err)
	for i, n := range hits[:s.rules] {
		if n == 0 {
			s.Errorf("fault %d of %d was never used", i+1, s.rules)
		}
	}
}

// fault is a rule of emulator/hnsd/serve.
type fault = map[string]any

func (s *stage) lose(what fault) {
	s.Helper()
	_, err := s.Host.HNS.Lose(s.ctx, what)
	s.Must(err)
}

// control changes HNS or its host by the control interface: its service, its blocks of ports, its speed, a reboot.
func (s *stage) control(path string, what fault) {
	s.Helper()
	s.Must(s.Host.HNS.Control(s.ctx, "POST", path, what, nil))
}

// calls counts a function's calls by the proxy so far.
func (s *stage) calls(function string) int {
	s.Helper()
	return s.Stats().Programs[proxyName][function]
}

// called waits until the proxy has called a function n times.
func (s *stage) called(function string, n int, limit time.Duration) {
	s.Helper()
	s.Until("the proxy to call "+function, limit, func() error {
		if now := s.calls(function); now < n {
			return fmt.Errorf("%d calls", now)
		}
		return nil
	})
}

// done counts those of a function's calls that did not fail, as one in ten may; nobody else makes any.
func (s *stage) done(function string) int {
	s.Helper()
	st := s.Stats()
	return st.Calls[function] - st.Errors[function]
}

// syncs waits until upstream's proxy has looked at HNS n times more, or to its end.
func (s *stage) syncs(n int) {
	s.Helper()
	from := s.calls("HcnEnumerateNetworks")
	s.Until("the proxy to look at HNS", time.Duration(n)*10*time.Second, func() error {
		if ended, _ := s.Proxy.Ended(); ended {
			return nil
		}
		if now := s.calls("HcnEnumerateNetworks"); now < from+2*n { // two for each sync (spec: call sequences)
			return fmt.Errorf("%d lookups", now-from)
		}
		return nil
	})
}

// follow lets the proxy take up a change: ours all of it, upstream's for n syncs.
func (s *stage) follow(n int) {
	s.Helper()
	if s.ours {
		s.settle(period)
	} else {
		s.syncs(n)
	}
}

// diff is how HNS differs from what the services want.
func (s *stage) diff() []string {
	s.Helper()
	d, err := s.Host.Diff(s.ctx, s.foreign...)
	s.Must(err)
	return d
}

// differs returns a difference that contains part and has lasted for n syncs, or "".
func (s *stage) differs(n int, part string) string {
	s.Helper()
	s.syncs(n)
	for _, d := range s.diff() {
		if strings.Contains(d, part) {
			return fmt.Sprintf("after %d syncs: %s", n, d)
		}
	}
	return ""
}

// differsOnlyIn waits until every difference contains part.
func (s *stage) differsOnlyIn(part string, limit time.Duration) {
	s.Helper()
	s.Until("all but "+part, limit, func() error {
		for _, d := range s.diff() {
			if !strings.Contains(d, part) {
				return errors.New(d)
			}
		}
		return nil
	})
}

// answers asks every kind of frontend from the client's pod.
func (s *stage) answers() {
	s.Helper()
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
			flows, _ := exec.CommandContext(s.ctx, "nsenter", "--net="+s.Host.Netns, "conntrack", "-L", "-d",
				q.to.Addr().String()).CombinedOutput()
			s.Errorf("%s %s does not answer: %v; the host's flows:\n%s", q.network, q.to, err, flows)
		}
	}
}

// frontend is a service's cluster address as lab.Host.LoadBalancers names it.
func frontend(service *corev1.Service, protocol, port int) string {
	return fmt.Sprintf("%s/%d/%d", service.Spec.ClusterIP, protocol, port)
}

// lbs are HNS's load balancers, oldest first.
func (s *stage) lbs() []expected.LoadBalancer {
	s.Helper()
	list, err := s.Host.LoadBalancers(s.ctx)
	s.Must(err)
	return list
}

// lbOf returns the id of the load balancer of a service's TCP port 80.
func (s *stage) lbOf(service *corev1.Service) string {
	s.Helper()
	for _, lb := range s.lbs() {
		if slices.Contains(lb.Frontends(), frontend(service, 6, 80)) {
			return lb.ID
		}
	}
	s.Fatalf("HNS has no load balancer of %s", service.Name)
	return ""
}

// directReturn is the flag of a load balancer (hcsshim hcn.LoadBalancerFlagsDSR).
const directReturn = 1

// lbDocument is what another program gives HNS to make a load balancer of it.
type lbDocument struct {
	HostComputeEndpoints, FrontendVIPs []string
	Flags                              int
	SchemaVersion                      struct{ Major, Minor int }
	PortMappings                       []portMapping
}

type portMapping struct{ Protocol, InternalPort, ExternalPort, DistributionType int }

// balancer leads TCP port 80 of an address to a pod.
func balancer(vip string, to *lab.Pod, flags int) lbDocument {
	d := lbDocument{HostComputeEndpoints: []string{to.Endpoint}, FrontendVIPs: []string{vip}, Flags: flags,
		PortMappings: []portMapping{{Protocol: 6, InternalPort: targetPort, ExternalPort: 80}}}
	d.SchemaVersion.Major = 2
	return d
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
	s.Helper()
	w := &watch{stop: make(chan struct{})}
	var conns []*lab.Conn
	for range connCount {
		c, err := s.client.Open(lab.ClusterAddr(s.web, 80), 5*time.Second)
		s.Must(err)
		conns = append(conns, c)
	}
	for _, c := range conns {
		w.done.Go(func() { w.use(c) })
	}
	s.watch = w
	s.Cleanup(func() { w.end() })
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

// unbroken checks that no connection broke.
func (s *stage) unbroken() {
	s.Helper()
	if broken := s.watch.end(); len(broken) > 0 {
		s.Errorf("%d of %d open connections broke: %s", len(broken), connCount, broken[0])
	}
}
