package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"porthole.dev/porthole/test/proxy/lab"
)

// failingCalls: HNS refuses, fails, lies or does not answer.
var failingCalls = []scenario{
	{
		id: "F-4", issue: "kubernetes/kubernetes#139519",
		what: "a new service's frontend exists under an id that the proxy does not know",
		inject: func(s *stage) {
			doc := lab.Service(s.name("taken"), lab.Port("http", "tcp", 80, targetPort))
			doc.Spec.ClusterIP = fmt.Sprintf("10.96.250.%d", s.Host.Pods.Addr().As4()[2])
			_, err := s.Host.HNS.Create(s.ctx, lab.LoadBalancer, "",
				balancer(doc.Spec.ClusterIP, s.near2, directReturn))
			s.Must(err)
			s.backed(s.Apply(doc), s.near1, world.far[2])
		},
		upstream: lasts("10.96.250."),
	},
	{
		id: "F-5", issue: "kubernetes/kubernetes#137530, kubernetes/community#8883",
		what: "a process of the host holds a node port for a while",
		host: lab.HostOptions{Build: ws2019},
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnCreateLoadBalancer", "match": `"ExternalPort":8443`,
				"action": "fail", "code": 0x803b0013, "text": "The specified port already exists. "})
			s.backed(s.service("held", lab.Port("https", "tcp", 8443, targetPort)), s.near1)
			s.serves("other", s.near2)
			// The other service does not wait for the held one.
			s.differsOnlyIn("/8443 ", period)
			s.syncsOf(3)
			s.faults() // the process has ended
		},
		unshown: "1.36.3 tries again at each sync, without a word to anybody; the crash loop needed the broken builds of HNS",
	},
	{
		id: "F-6", issue: "kubernetes/kubernetes#113524, #113521",
		what: "deleting load balancers fails for some seconds while thirty services go",
		inject: func(s *stage) {
			var names []string
			for i := range 30 {
				name := fmt.Sprintf("gone%d", i)
				s.serves(name, s.near1)
				names = append(names, s.name(name))
			}
			s.settle(2 * time.Minute)
			s.faults(fault{"function": "HcnDeleteLoadBalancer", "action": "fail", "code": 0x80004005})
			for _, name := range names {
				s.Must(world.DeleteService(s.ctx, "default", name))
			}
			s.called("HcnDeleteLoadBalancer", 10, time.Minute)
			s.faults()
		},
		upstream: func(s *stage) string { return s.differs(1, "nobody wants it") },
	},
	{
		id: "F-8", issue: "kubernetes/kubernetes winkernel, seen while HNS restarts",
		what: "HNS lists no endpoints for some seconds",
		inject: func(s *stage) {
			s.Must(s.Host.HNS.ResetStats(s.ctx))
			s.faults(fault{"function": "HcnEnumerateEndpoints", "action": "empty", "forMs": min(s.untilSeen(), 10000)})
			s.backed(s.sticky, s.near2, world.far[1], world.far[2])
			s.met(1, period)
		},
		upstream: func(s *stage) string {
			s.syncs(3)
			if n := s.calls("HcnCreateEndpoint"); n > 1 {
				return fmt.Sprintf("makes %d remote endpoints for one new backend", n)
			}
			return s.differs(3, "")
		},
		ours: func(s *stage) {
			if n := s.done("HcnDeleteEndpoint") + s.done("HcnDeleteLoadBalancer"); n > 1 { // the changed service's own
				s.Errorf("%d objects were deleted", n)
			}
		},
	},
	{
		id: "F-9", issue: "kubernetes/kubernetes winkernel, List of hcsshim",
		what: "objects vanish while they are listed, as endpoints go",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnOpenEndpoint", "action": "fail", "code": 0x80070490,
				"text": "Element not found. ", "probability": 0.5, "seed": 7, "forMs": s.untilSeen()})
			if s.ours {
				s.start() // ours reads what it does not know yet, that is all at a start
			}
			s.backed(s.web, s.near1, s.near2, world.far[0])
			s.backed(s.sticky, s.near2) // nobody uses the second far pod any more
			s.met(5, period)
			s.expire(6 * time.Second)
			s.faults()
		},
		upstream: lasts(""),
		cuts:     true, // connections to the pod that left
	},
	away("F-10", "gone", "away (0x800706ba)"),
	away("F-10 stopped", "stopped", "stopped (0x80070426)"),
	away("F-10 starting", "starting", "starting (0x800706d9)"),
	{
		id: "F-10 hang", issue: "projectcalico/calico#7823, microsoft/SDN automitigator",
		what: "one create does not come back",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnCreateLoadBalancer", "action": "hang", "times": 1})
			s.serves("stuck", s.near1)
			s.met(1, 30*time.Second)
			s.serves("next", s.near2)
		},
		upstream: func(s *stage) string {
			if s.Host.Settled(s.ctx, 15*time.Second, s.foreign...) == nil {
				return ""
			}
			return "has stopped: " + s.diff()[0]
		},
		within: 90 * time.Second,
	},
	{
		id: "F-25", issue: "microsoft/SDN automitigator", what: "every call hangs, then HNS works again",
		inject: func(s *stage) {
			s.faults(fault{"function": "*", "action": "hang"})
			s.serves("late", s.near1)
			s.met(1, 60*time.Second)
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
			if code, body, err := s.Host.Get(s.ctx, lab.HealthPort, "/healthz"); err != nil || code != 200 {
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
			s.faults(fault{"function": "HcnModifyLoadBalancer", "action": "skip"})
			s.backed(s.sticky, s.near1, world.far[2])
		},
		upstream: stickyLasts,
	},
	{
		id: "F-18", issue: "kubernetes/kubernetes#100962, kubernetes-sigs/sig-windows-tools#71",
		what:   "HNS refuses the source address of an Overlay network",
		host:   lab.HostOptions{NetworkType: "Overlay"},
		before: func(s *stage) { s.flags, s.noisy = append(s.flags, "--source-vip="+s.sourceVIP()), false },
		inject: func(s *stage) {
			s.Proxy.Kill()
			s.lose(fault{"kind": "LocalEndpoint", "match": `"` + strings.ReplaceAll(s.sourceVIP(), ".", `\.`) + `"`})
			s.faults(fault{"function": "HcnCreateEndpoint", "match": `"` + s.sourceVIP() + `"`,
				"action": "fail", "code": 0x803b002f, "text": "The address is invalid or reserved. "})
			s.backed(s.sticky, s.near1)
			s.start()
			s.met(1, 30*time.Second)
		},
		upstream: lasts("missing"),
		cuts:     true, // the load balancers carry the address
	},
	{
		id: "F-32", issue: "hcsshim caches features",
		what: "HNS does not answer when the proxy asks for its version first",
		inject: func(s *stage) {
			s.Proxy.Kill()
			s.faults(fault{"function": "HNSCall GET /globals/*", "action": "fail", "code": 0x800706ba, "times": 1})
			s.start()
			s.met(1, 30*time.Second)
		},
		upstream: func(s *stage) string { return crashed(s, 30*time.Second) },
	},
}

// away stops HNS for 5 s, keeping its objects and rules, and changes a service meanwhile.
func away(id, state, what string) scenario {
	return scenario{
		id: id, issue: "kubernetes/kubernetes#139519", what: "HNS is " + what + " for 5 s while a service changes",
		inject: func(s *stage) {
			s.control("/service", fault{"state": state, "forMs": 5000})
			s.syncsOf(1)
			s.backed(s.sticky, s.near1, world.far[2])
			s.backFrom()
		},
		upstream: lasts(""),
	}
}

// backFrom waits until HNS runs again.
func (s *stage) backFrom() {
	s.Helper()
	s.Until("HNS to be back", 30*time.Second, func() error {
		var st struct{ State string }
		err := s.Host.HNS.Control(s.ctx, "GET", "/service", nil, &st)
		if err == nil && st.State != "running" {
			err = fmt.Errorf("it is %s", st.State)
		}
		return err
	})
}

// syncsOf waits for n periods of upstream's proxy. Ours has no periodic syncs to wait for.
func (s *stage) syncsOf(n int) {
	s.Helper()
	if !s.ours {
		s.expire(time.Duration(n) * upstreamPeriod)
	}
}

// sourceVIP is an address of the host's range that no pod has.
func (s *stage) sourceVIP() string {
	a := s.Host.Pods.Addr().As4()
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

// met waits until the first fault rule was used n times.
func (s *stage) met(n int, limit time.Duration) {
	s.Helper()
	s.Until("the proxy to meet the fault", limit, func() error {
		hits, err := s.Host.HNS.Hits(s.ctx)
		if err == nil && (len(hits) == 0 || hits[0] < n) {
			err = fmt.Errorf("the rules were used %v times", hits)
		}
		return err
	})
}

// expire waits for the given time. Use it only for faults that are defined by how long they last: they have no
// condition that a test could wait for.
func (s *stage) expire(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// alive checks that /livez of the proxy answers while HNS does not.
func (s *stage) alive() {
	s.Helper()
	if err := s.Page(lab.HealthPort, "/livez", 200)(); err != nil {
		s.Error(err)
	}
}
