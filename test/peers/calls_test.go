package peers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	lab "porthole.dev/porthole/test/proxylab"
)

type ctx = context.Context

// failingCalls: HNS refuses, fails, lies or does not answer.
var failingCalls = []scenario{
	{
		id: "F-4", issue: "kubernetes/kubernetes#139519",
		what: "a new service's frontend exists under an id that the proxy does not know",
		inject: func(s *stage) {
			doc := lab.Service(s.name("taken"), lab.Port("http", "tcp", 80, targetPort))
			doc.Spec.ClusterIP = fmt.Sprintf("10.96.250.%d", s.host.Pods.Addr().As4()[2])
			_, err := s.host.HNS.Create(s.ctx, lab.LoadBalancer, "",
				fault{"HostComputeEndpoints": []string{s.near2.Endpoint},
					"FrontendVIPs": []string{doc.Spec.ClusterIP}, "SchemaVersion": fault{"Major": 2, "Minor": 0},
					"Flags":        1,
					"PortMappings": []fault{{"Protocol": 6, "InternalPort": targetPort, "ExternalPort": 80}}})
			s.must(err)
			s.slice(s.apply(doc), s.backends(s.near1, world.far[2])...)
		},
		upstream: func(s *stage) string { return s.differs(5, "10.96.250.") },
		within:   period,
	},
	{
		id: "F-5", issue: "kubernetes/kubernetes#137530, kubernetes/community#8883",
		what: "a process of the host holds a node port for a while",
		host: lab.HostOptions{Build: ws2019},
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnCreateLoadBalancer", "program": proxyName, "match": `"ExternalPort":8443`,
				"action": "fail",
				"code":   0x803b0013, "text": "The specified port already exists. "})
			s.slice(s.service("held", lab.Port("https", "tcp", 8443, targetPort)), s.backends(s.near1)...)
			s.slice(s.service("other", lab.Port("http", "tcp", 80, targetPort)), s.backends(s.near2)...)
			// The other service does not wait for the held one.
			s.must(wait.For(s.ctx, period, "the other service", func(ctx) error {
				for _, d := range s.diff() {
					if !strings.Contains(d, "/8443 ") {
						return fmt.Errorf("%s", d)
					}
				}
				return nil
			}))
			s.syncsOf(3)
			s.faults() // the process has ended
		},
		unshown: "1.36.3 tries again at each sync, without a word to anybody; the crash loop needed the broken builds of HNS",
		within:  period,
	},
	{
		id: "F-6", issue: "kubernetes/kubernetes#113524, #113521",
		what: "deleting load balancers fails for some seconds while thirty services go",
		inject: func(s *stage) {
			var names []string
			for i := range 30 {
				name := fmt.Sprintf("gone%d", i)
				s.slice(s.service(name, lab.Port("http", "tcp", 80, targetPort)), s.backends(s.near1)...)
				names = append(names, s.name(name))
			}
			s.settle(2 * time.Minute)
			s.faults(fault{"function": "HcnDeleteLoadBalancer", "program": proxyName, "action": "fail",
				"code": 0x80004005})
			for _, name := range names {
				s.must(world.DeleteService(s.ctx, "default", name))
			}
			s.must(wait.For(s.ctx, time.Minute, "the proxy to try", func(ctx) error {
				if n := s.calls("HcnDeleteLoadBalancer"); n < 10 {
					return fmt.Errorf("%d deletes", n)
				}
				return nil
			}))
			s.faults()
		},
		upstream: func(s *stage) string { return s.differs(1, "nobody wants it") },
		within:   period,
	},
	{
		id: "F-8", issue: "kubernetes/kubernetes winkernel, seen while HNS restarts",
		what: "HNS lists no endpoints for some seconds",
		inject: func(s *stage) {
			s.must(s.host.HNS.ResetStats(s.ctx))
			s.faults(fault{"function": "HcnEnumerateEndpoints", "program": proxyName, "action": "empty",
				"forMs": min(s.untilSeen(), 10000)})
			s.slice(s.sticky, s.backends(s.near2, world.far[1], world.far[2])...)
			s.must(wait.For(s.ctx, period, "the proxy to be told nothing", func(ctx) error { return s.hits(1) }))
		},
		upstream: func(s *stage) string {
			s.syncs(3)
			if n := s.calls("HcnCreateEndpoint"); n > 1 {
				return fmt.Sprintf("makes %d remote endpoints for one new backend", n)
			}
			return s.differs(3, "")
		},
		within: period,
		ours: func(s *stage) {
			if n := s.done("HcnDeleteEndpoint") + s.done("HcnDeleteLoadBalancer"); n > 1 { // the changed service's own
				s.t.Errorf("%d objects were deleted", n)
			}
		},
	},
	{
		id: "F-9", issue: "kubernetes/kubernetes winkernel, List of hcsshim",
		what: "objects vanish while they are listed, as endpoints go",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnOpenEndpoint", "program": proxyName, "action": "fail", "code": 0x80070490,
				"text":        "Element not found. ",
				"probability": 0.5, "seed": 7, "forMs": s.untilSeen()})
			if s.ours {
				s.proxy.Kill() // ours reads what it does not know yet, that is all at a start
				s.start()
			}
			s.slice(s.web, s.backends(s.near1, s.near2, world.far[0])...)
			s.slice(s.sticky, s.backends(s.near2)...) // nobody uses the second far pod any more
			s.must(wait.For(s.ctx, period, "the fault", func(ctx) error { return s.hits(5) }))
			s.expire(6 * time.Second)
			s.faults()
		},
		upstream: func(s *stage) string { return s.differs(5, "") },
		within:   period, cuts: true, // connections to the pod that left
	},
	{
		id: "F-10", issue: "kubernetes/kubernetes#139519",
		what:     "HNS is away (0x800706ba) for 5 s while a service changes",
		inject:   func(s *stage) { s.away("gone") },
		upstream: func(s *stage) string { return s.differs(5, "") },
		within:   period,
	},
	{
		id: "F-10 stopped", issue: "kubernetes/kubernetes#139519",
		what:     "HNS is stopped (0x80070426) for 5 s while a service changes",
		inject:   func(s *stage) { s.away("stopped") },
		upstream: func(s *stage) string { return s.differs(5, "") },
		within:   period,
	},
	{
		id: "F-10 starting", issue: "kubernetes/kubernetes#139519",
		what:     "HNS is starting (0x800706d9) for 5 s while a service changes",
		inject:   func(s *stage) { s.away("starting") },
		upstream: func(s *stage) string { return s.differs(5, "") },
		within:   period,
	},
	{
		id: "F-10 hang", issue: "projectcalico/calico#7823, microsoft/SDN automitigator",
		what: "one create does not come back",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnCreateLoadBalancer", "program": proxyName, "action": "hang", "times": 1})
			s.slice(s.service("stuck", lab.Port("http", "tcp", 80, targetPort)), s.backends(s.near1)...)
			s.must(wait.For(s.ctx, 30*time.Second, "the hang", func(ctx) error { return s.hits(1) }))
			s.slice(s.service("next", lab.Port("http", "tcp", 80, targetPort)), s.backends(s.near2)...)
		},
		upstream: func(s *stage) string {
			if s.host.Settled(s.ctx, 15*time.Second, s.foreign) == nil {
				return ""
			}
			return "has stopped: " + s.diff()[0]
		},
		within: 90 * time.Second,
	},
	{
		id: "F-25", issue: "microsoft/SDN automitigator", what: "every call hangs, then HNS works again",
		inject: func(s *stage) {
			s.faults(fault{"function": "*", "program": proxyName, "action": "hang"})
			s.slice(s.service("late", lab.Port("http", "tcp", 80, targetPort)), s.backends(s.near1)...)
			s.must(wait.For(s.ctx, 60*time.Second, "the hang", func(ctx) error { return s.hits(1) }))
			if s.ours {
				s.alive()
			}
			s.expire(20 * time.Second)
			if s.ours {
				s.alive()
				s.faults()
			}
		},
		upstream: func(s *stage) string {
			if code, body, err := s.host.Get(s.ctx, lab.HealthPort, "/healthz"); err != nil || code != 200 {
				return fmt.Sprintf("is unhealthy: %d %.100s %v", code, body, err)
			}
			return "waits with its lock held and says that it is healthy: " + s.diff()[0]
		},
		within: 2 * period,
	},
	{
		id: "F-13", issue: "kubernetes/kubernetes#131466", what: "Modify says yes and changes nothing",
		host: lab.HostOptions{Build: ws2025},
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnModifyLoadBalancer", "program": proxyName, "action": "skip"})
			s.slice(s.sticky, s.backends(s.near1, world.far[2])...)
		},
		upstream: func(s *stage) string { return s.differs(5, s.sticky.Spec.ClusterIP) },
		within:   period,
	},
	{
		id: "F-18", issue: "kubernetes/kubernetes#100962, kubernetes-sigs/sig-windows-tools#71",
		what:   "HNS refuses the source address of an Overlay network",
		host:   lab.HostOptions{NetworkType: "Overlay"},
		before: func(s *stage) { s.flags, s.noisy = append(s.flags, "--source-vip="+s.sourceVIP()), false },
		inject: func(s *stage) {
			s.proxy.Kill()
			s.lose(fault{"kind": "LocalEndpoint", "match": `"` + strings.ReplaceAll(s.sourceVIP(), ".", `\.`) + `"`})
			s.faults(fault{"function": "HcnCreateEndpoint", "program": proxyName, "match": `"` + s.sourceVIP() + `"`,
				"action": "fail",
				"code":   0x803b002f, "text": "The address is invalid or reserved. "})
			s.slice(s.sticky, s.backends(s.near1)...)
			s.start()
			s.must(wait.For(s.ctx, 30*time.Second, "the refusal", func(ctx) error { return s.hits(1) }))
		},
		upstream: func(s *stage) string { return s.differs(5, "missing") },
		within:   period, cuts: true, // the load balancers carry the address
	},
	{
		id: "F-32", issue: "hcsshim caches features",
		what: "HNS does not answer when the proxy asks for its version first",
		inject: func(s *stage) {
			s.proxy.Kill()
			s.faults(fault{"function": "HNSCall GET /globals/*", "program": proxyName, "action": "fail",
				"code": 0x800706ba, "times": 1})
			s.start()
			s.must(wait.For(s.ctx, 30*time.Second, "the question", func(ctx) error { return s.hits(1) }))
		},
		upstream: func(s *stage) string { return crashed(s, 30*time.Second) },
		within:   period,
	},
}

// away stops HNS for 5 s, keeping its objects and rules, and changes a service meanwhile.
func (s *stage) away(state string) {
	s.t.Helper()
	s.hns(fault{"state": state, "forMs": 5000})
	s.syncsOf(1)
	s.slice(s.sticky, s.backends(s.near1, world.far[2])...)
	s.backFrom()
}

// backFrom waits until HNS runs again.
func (c *control) backFrom() {
	c.t.Helper()
	c.must(wait.For(c.ctx, 30*time.Second, "HNS to be back", func(ctx ctx) error {
		var st struct{ State string }
		err := c.host.HNS.Control(ctx, "GET", "/service", nil, &st)
		if err == nil && st.State != "running" {
			err = fmt.Errorf("it is %s", st.State)
		}
		return err
	}))
}

// syncsOf waits for n periods of upstream's proxy. Ours has no periodic syncs to wait for.
func (s *stage) syncsOf(n int) {
	s.t.Helper()
	if !s.ours {
		s.expire(time.Duration(n) * upstreamPeriod)
	}
}

// sourceVIP is an address of the host's range that no pod has.
func (c *control) sourceVIP() string {
	a := c.host.Pods.Addr().As4()
	a[3] = 250
	return netip.AddrFrom4(a).String()
}

// untilSeen returns how long a fault of listings must last, in milliseconds, for the proxy to meet it: ours lists
// rarely.
func (s *stage) untilSeen() int {
	if s.ours {
		return int(period.Milliseconds())
	}
	return 5000
}

// hits fails until the first fault rule was used n times.
func (c *control) hits(n int) error {
	hits, err := c.host.HNS.Hits(c.ctx)
	if err != nil {
		return err
	}
	if len(hits) == 0 || hits[0] < n {
		return fmt.Errorf("the rules were used %v times", hits)
	}
	return nil
}

// expire waits for the given time. Use it only for faults that are defined by how long they last: they have no
// condition that a test could wait for.
func (c *control) expire(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// alive checks that /livez of the proxy answers while HNS does not.
func (s *stage) alive() {
	s.t.Helper()
	if code, body, err := s.host.Get(s.ctx, lab.HealthPort, "/livez"); err != nil || code != 200 {
		s.t.Errorf("/livez: %d %s %v", code, body, err)
	}
}
