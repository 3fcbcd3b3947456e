package peers

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	lab "porthole.dev/porthole/test/proxylab"
)

// oddObjects: objects of Kubernetes or of HNS have a shape that is rare.
var oddObjects = []scenario{
	{
		id: "F-3", issue: "kubernetes/kubernetes#133928",
		what: "two services with the same pods, one for this node's only",
		inject: func(s *stage) {
			only := corev1.ServiceInternalTrafficPolicyLocal
			a := lab.Service(s.name("all"), lab.Port("http", "tcp", 80, targetPort))
			b := lab.Service(s.name("only"), lab.Port("http", "tcp", 80, targetPort))
			b.Spec.InternalTrafficPolicy = &only
			a, b = s.apply(a), s.apply(b)
			for _, pods := range [][]*lab.Pod{{s.near1, world.far[0]}, {s.near1, s.near2, world.far[0]},
				{s.near1, world.far[0], world.far[1]}} {
				s.slice(a, s.backends(pods...)...)
				s.slice(b, s.backends(pods...)...)
				if s.ours {
					s.settle(period)
				} else {
					s.syncs(2)
				}
			}
		},
		unshown: "1.36.3 has the fix",
		within:  period,
	},
	{
		id: "F-15", issue: "kubernetes/kubernetes#106936", what: "a service loses all its endpoints and gets them back",
		inject: func(s *stage) {
			s.must(s.host.HNS.ResetStats(s.ctx))
			s.slice(s.sticky)
			if s.ours {
				s.settle(period)
			} else {
				s.syncs(3)
			}
			s.slice(s.sticky, s.backends(s.near2, world.far[1])...)
		},
		unshown: "fixed upstream since",
		within:  period,
		ours: func(s *stage) {
			st, err := s.host.HNS.Stats(s.ctx)
			s.must(err)
			if n := st.Programs[proxyName]["HcnCreateLoadBalancer"]; n > 1+st.Errors["HcnCreateLoadBalancer"] {
				s.t.Errorf("%d load balancers were made, one was needed", n)
			}
		},
	},
	{
		id: "F-16", issue: "kubernetes/kubernetes#100228, #99964",
		what: "a load balancer's ingress has a name and no address",
		inject: func(s *stage) {
			doc := lab.Service(s.name("named"), lab.Port("http", "tcp", 8081, targetPort))
			doc.Spec.Type = corev1.ServiceTypeLoadBalancer
			doc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
			s.slice(s.apply(doc), s.backends(s.near1)...)
		},
		unshown: "fixed upstream since",
		within:  period,
	},
	{
		id: "F-17", issue: "kubernetes/kubernetes#141488", what: "HNS gives a load balancer without port mappings",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnQueryLoadBalancerProperties", "program": proxyName, "action": "strip",
				"fields": []string{"PortMappings"}, "times": 30})
			s.slice(s.sticky, s.backends(s.near1)...)
			if s.ours {
				s.restartInto(3)
			}
		},
		upstream: func(s *stage) string { return crashed(s, 20*time.Second) },
		within:   period,
	},
	{
		id: "F-17 endpoint", issue: "kubernetes/kubernetes#141489", what: "HNS gives an endpoint without addresses",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnQueryEndpointProperties", "program": proxyName, "action": "strip",
				"fields": []string{"IpConfigurations"}, "times": 30})
			s.slice(s.sticky, s.backends(s.near1, world.far[2])...)
			if s.ours {
				s.restartInto(3)
			}
		},
		upstream: func(s *stage) string { return crashed(s, 20*time.Second) },
		within:   period,
	},
	{
		id: "F-21", issue: "kubernetes/kubernetes#130963, #131138, #76316",
		what: "a slice says that a pod of this node is on another one, then corrects itself",
		inject: func(s *stage) {
			for range 3 {
				s.slice(s.sticky, append(lab.On(world.node.Name, s.near1.Addr), s.backends(world.far[1])...)...)
				if s.ours {
					s.expire(time.Second)
				} else {
					s.syncs(2)
				}
				s.slice(s.sticky, s.backends(s.near1, world.far[1])...)
				if s.ours {
					s.settle(period)
				} else {
					s.syncs(2)
				}
			}
			s.slice(s.sticky, s.backends(world.far[1])...)
		},
		unshown: "1.36 keeps the pods' endpoints here; what it leaves behind is F-22",
		within:  period,
		ours:    func(s *stage) { s.reachable() },
	},
	{
		id: "F-22 double", issue: "kubernetes/kubernetes#138000, microsoft/Windows-Containers#631",
		what: "a remote endpoint has the address of a pod of this node",
		inject: func(s *stage) {
			id, err := s.host.HNS.Create(s.ctx, lab.Endpoint, s.host.NetworkID,
				fault{"HostComputeNetwork": s.host.NetworkID, "Flags": 1,
					"IpConfigurations": []fault{{"IpAddress": s.near1.Addr.String()}},
					"MacAddress":       "02-11-0a-f4-00-0a",
					"SchemaVersion":    fault{"Major": 2, "Minor": 0}})
			if err == nil { // newer HNS refuses
				s.foreign.Endpoints = append(s.foreign.Endpoints, id)
			}
			s.slice(s.sticky, s.backends(s.near1, world.far[1])...)
		},
		unshown: "upstream deletes the foreign endpoint that it sees",
		within:  period,
		ours:    func(s *stage) { s.reachable() },
	},
	{
		id: "F-30", issue: "rancher/rke2#5335, flannel-io/flannel#1857",
		what: "the uplink is down for 4 s and the API server away for 8",
		inject: func(s *stage) {
			s.host.API.Cut()
			s.must(s.host.Uplink(false))
			s.expire(4 * time.Second)
			s.must(s.host.Uplink(true))
			s.slice(s.sticky, s.backends(s.near1, world.far[2])...)
			s.expire(4 * time.Second)
			s.must(s.host.API.Restore())
		},
		unshown: "concerns the creation of networks, which is not the proxy's",
		within:  time.Minute,
	},
}

// reachable checks that the host's pods still have their network.
func (s *stage) reachable() {
	s.t.Helper()
	for _, p := range []*lab.Pod{s.near1, s.near2} {
		if _, err := s.client.Ask("tcp", target(p), 2*time.Second); err != nil {
			s.t.Errorf("pod %s is cut off: %v", p.Name, err)
		}
	}
}

// startAndStop: what starts and restarts of a proxy do.
var startAndStop = []scenario{
	{
		id: "F-34", issue: "kubernetes/kubernetes winkernel, deleteAllHnsLoadBalancerPolicy",
		what: "the proxy restarts beside another program's load balancer",
		inject: func(s *stage) {
			s.quiet()
			s.foreignLB()
			s.must(s.host.HNS.ResetStats(s.ctx))
			s.proxy.Kill()
			s.start()
			s.must(wait.For(s.ctx, 30*time.Second, "the new proxy to look at HNS", func(ctx ctx) error {
				if s.calls("HcnEnumerateLoadBalancers") == 0 {
					return fmt.Errorf("not yet")
				}
				return nil
			}))
		},
		upstream: func(s *stage) string {
			s.syncs(3)
			if n := s.calls("HcnDeleteLoadBalancer"); n > 0 {
				return fmt.Sprintf("deletes %d load balancers; now: %s", n, strings.Join(s.diff(), "; "))
			}
			return ""
		},
		within: period,
		ours: func(s *stage) {
			s.must(wait.For(s.ctx, period, "the proxy to be ready", func(ctx ctx) error {
				code, body, err := s.host.Get(ctx, lab.HealthPort, "/readyz")
				if err == nil && code != 200 {
					err = fmt.Errorf("%d %s", code, body)
				}
				return err
			}))
			st, err := s.host.HNS.Stats(s.ctx)
			s.must(err)
			if writes := writesOf(st.Programs[proxyName]); writes > 0 {
				s.t.Errorf("a restart with everything right made %d writes: %v", writes, st.Programs[proxyName])
			}
		},
	},
	{
		id: "F-33", issue: "kubernetes/kubernetes#109162, #109124",
		what: "the proxy restarts on a host whose HNS is slow",
		inject: func(s *stage) {
			s.quiet()
			for i := range 10 {
				s.slice(s.service(fmt.Sprintf("more%d", i), lab.Port("http", "tcp", 80, targetPort)),
					s.backends(s.near1, world.far[i%4])...)
			}
			s.settle(time.Minute)
			s.proxy.Kill()
			s.must(s.host.HNS.Control(s.ctx, "POST", "/latency", fault{"profile": "ws2019"}, nil))
			s.must(s.host.HNS.ResetStats(s.ctx))
			s.start()
			s.must(wait.For(s.ctx, time.Minute, "the new proxy to look at HNS", func(ctx ctx) error {
				if s.calls("HcnEnumerateLoadBalancers") == 0 {
					return fmt.Errorf("not yet")
				}
				return nil
			}))
		},
		upstream: func(s *stage) string {
			s.must(wait.For(s.ctx, time.Minute, "the proxy to delete everything", func(ctx) error {
				if s.calls("HcnDeleteLoadBalancer") == 0 {
					return fmt.Errorf("not yet")
				}
				return nil
			}))
			begin := time.Now()
			s.settle(2 * time.Minute)
			if took := time.Since(begin); took > 5*time.Second {
				return fmt.Sprintf("has no complete set of 16 load balancers for %v after a restart",
					took.Round(time.Second))
			}
			return ""
		},
		within: 10 * time.Second,
	},
	{
		id: "F-20 reboot", issue: "microsoft/wcnscripts#24, kubernetes/kubernetes#78225",
		what: "after a reboot HNS lists load balancers that carry no packets",
		inject: func(s *stage) {
			s.quiet()
			s.proxy.Kill()
			s.must(lab.NextBoot(s.ctx, s.host))
			s.must(s.host.HNS.Control(s.ctx, "POST", "/reboot",
				fault{"keep": []string{"Namespace", "Attachment", "Forwarding"}}, nil))
			s.start()
			// Probes would find what is lost over TCP; nothing but a replacement finds it over UDP.
			s.must(wait.For(s.ctx, 20*time.Second, "the DNS port to answer", func(ctx) error {
				_, err := s.client.Ask("udp", lab.ClusterAddr(s.web, 53), time.Second)
				return err
			}))
		},
		unshown: "upstream's proxy deletes all load balancers at each start",
		within:  period, cuts: true,
	},
}

// restartInto restarts ours, which reads what it does not know yet, that is all at a start, with faults that are to
// hit n calls; they end 3 s later.
func (s *stage) restartInto(n int) {
	s.t.Helper()
	s.proxy.Kill()
	s.start()
	s.must(wait.For(s.ctx, period, "the fault", func(ctx) error { return s.hits(n) }))
	s.expire(3 * time.Second)
	s.faults()
}

// quiet ends the noise: what follows counts calls.
func (s *stage) quiet() {
	s.t.Helper()
	s.noisy = false
	s.faults()
	s.settle(period)
	if s.ours { // what it would have besides what the services ask may still be to come
		s.must(wait.For(s.ctx, period, "the proxy to have nothing to do", func(ctx ctx) error {
			code, body, err := s.host.Get(ctx, lab.MetricsPort, "/diff")
			if err == nil && (code != 200 || !strings.Contains(body, `"equal":true`)) {
				err = fmt.Errorf("%d %s", code, body)
			}
			return err
		}))
	}
}

// foreignLB is made by another program of the host, for addresses that are no service's.
func (s *stage) foreignLB() {
	s.t.Helper()
	id, err := s.host.HNS.Create(s.ctx, lab.LoadBalancer, "", fault{"HostComputeEndpoints": []string{s.near2.Endpoint},
		"FrontendVIPs": []string{"198.51.100.250"}, "SchemaVersion": fault{"Major": 2, "Minor": 0},
		"PortMappings": []fault{{"Protocol": 6, "InternalPort": targetPort, "ExternalPort": 80}}})
	s.must(err)
	s.foreign.LoadBalancers = append(s.foreign.LoadBalancers, id)
}

// writesOf counts the calls that change something.
func writesOf(calls map[string]int) (n int) {
	for name, count := range calls {
		for _, verb := range []string{"HcnCreate", "HcnModify", "HcnDelete"} {
			if strings.HasPrefix(name, verb) {
				n += count
			}
		}
	}
	return n
}
