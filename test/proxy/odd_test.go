package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxy/lab"
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
			a, b = s.Apply(a), s.Apply(b)
			for _, pods := range [][]*lab.Pod{{s.near1, world.far[0]}, {s.near1, s.near2, world.far[0]},
				{s.near1, world.far[0], world.far[1]}} {
				s.backed(a, pods...)
				s.backed(b, pods...)
				s.follow(2)
			}
		},
		unshown: "1.36.3 has the fix",
	},
	{
		id: "F-15", issue: "kubernetes/kubernetes#106936", what: "a service loses all its endpoints and gets them back",
		inject: func(s *stage) {
			s.Must(s.Host.HNS.ResetStats(s.ctx))
			s.backed(s.sticky)
			s.follow(3)
			s.backed(s.sticky, s.near2, world.far[1])
		},
		unshown: "fixed upstream since",
		ours: func(s *stage) {
			st := s.Stats()
			if n := st.Programs[proxyName]["HcnCreateLoadBalancer"]; n > 1+st.Errors["HcnCreateLoadBalancer"] {
				s.Errorf("%d load balancers were made, one was needed", n)
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
			s.backed(s.Apply(doc), s.near1)
		},
		unshown: "fixed upstream since",
	},
	{
		id: "F-17", issue: "kubernetes/kubernetes#141488", what: "HNS gives a load balancer without port mappings",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnQueryLoadBalancerProperties", "action": "strip",
				"fields": []string{"PortMappings"}, "times": 30})
			s.backed(s.sticky, s.near1)
			s.restartInto(3)
		},
		upstream: func(s *stage) string { return crashed(s, 20*time.Second) },
	},
	{
		id: "F-17 endpoint", issue: "kubernetes/kubernetes#141489", what: "HNS gives an endpoint without addresses",
		inject: func(s *stage) {
			s.faults(fault{"function": "HcnQueryEndpointProperties", "action": "strip",
				"fields": []string{"IpConfigurations"}, "times": 30})
			s.backed(s.sticky, s.near1, world.far[2])
			s.restartInto(3)
		},
		upstream: func(s *stage) string { return crashed(s, 20*time.Second) },
	},
	{
		id: "F-21", issue: "kubernetes/kubernetes#130963, #131138, #76316",
		what: "a slice says that a pod of this node is on another one, then corrects itself",
		inject: func(s *stage) {
			for range 3 {
				s.Slice(s.sticky, "-a",
					append(lab.On(world.node.Name, s.near1.Addr), s.backends(world.far[1])...)...)
				if s.ours {
					s.expire(time.Second)
				} else {
					s.syncs(2)
				}
				s.backed(s.sticky, s.near1, world.far[1])
				s.follow(2)
			}
			s.backed(s.sticky, world.far[1])
		},
		unshown: "1.36 keeps the pods' endpoints here; what it leaves behind is F-22",
		ours:    (*stage).reachable,
	},
	{
		id: "F-22 double", issue: "kubernetes/kubernetes#138000, microsoft/Windows-Containers#631",
		what: "a remote endpoint has the address of a pod of this node",
		inject: func(s *stage) {
			id, err := s.Host.HNS.Create(s.ctx, lab.Endpoint, s.Host.NetworkID,
				fault{"HostComputeNetwork": s.Host.NetworkID, "Flags": 1,
					"IpConfigurations": []fault{{"IpAddress": s.near1.Addr.String()}},
					"MacAddress":       "02-11-0a-f4-00-0a",
					"SchemaVersion":    fault{"Major": 2, "Minor": 0}})
			if err == nil { // newer HNS refuses
				s.foreign = append(s.foreign, id)
			}
			s.backed(s.sticky, s.near1, world.far[1])
		},
		unshown: "upstream deletes the foreign endpoint that it sees",
		ours:    (*stage).reachable,
	},
	{
		id: "F-30", issue: "rancher/rke2#5335, flannel-io/flannel#1857",
		what: "the uplink is down for 4 s and the API server away for 8",
		inject: func(s *stage) {
			s.Host.API.Cut()
			s.Must(s.Host.Uplink(false))
			s.expire(4 * time.Second)
			s.Must(s.Host.Uplink(true))
			s.backed(s.sticky, s.near1, world.far[2])
			s.expire(4 * time.Second)
			s.Must(s.Host.API.Restore())
		},
		unshown: "concerns the creation of networks, which is not the proxy's",
		within:  time.Minute,
	},
}

// reachable checks that the host's pods still have their network.
func (s *stage) reachable() {
	s.Helper()
	for _, p := range []*lab.Pod{s.near1, s.near2} {
		if _, err := s.client.Ask("tcp", netip.AddrPortFrom(p.Addr, targetPort), 2*time.Second); err != nil {
			s.Errorf("pod %s is cut off: %v", p.Name, err)
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
			s.Must(s.Host.HNS.ResetStats(s.ctx))
			s.start()
			s.called("HcnEnumerateLoadBalancers", 1, 30*time.Second)
		},
		upstream: func(s *stage) string {
			s.syncs(3)
			if n := s.calls("HcnDeleteLoadBalancer"); n > 0 {
				return fmt.Sprintf("deletes %d load balancers; now: %s", n, strings.Join(s.diff(), "; "))
			}
			return ""
		},
		ours: func(s *stage) {
			s.Until("the proxy to be ready", period, s.Page(lab.HealthPort, "/readyz", 200))
			if st := s.Stats(); st.Writes > 0 {
				s.Errorf("a restart with everything right made %d writes: %v", st.Writes, st.Programs[proxyName])
			}
		},
	},
	{
		id: "F-33", issue: "kubernetes/kubernetes#109162, #109124",
		what: "the proxy restarts on a host whose HNS is slow",
		inject: func(s *stage) {
			s.quiet()
			for i := range 10 {
				s.serves(fmt.Sprintf("more%d", i), s.near1, world.far[i%4])
			}
			s.settle(time.Minute)
			s.Proxy.Kill()
			s.control("/latency", fault{"profile": "ws2019"})
			s.Must(s.Host.HNS.ResetStats(s.ctx))
			s.start()
			s.called("HcnEnumerateLoadBalancers", 1, time.Minute)
		},
		upstream: func(s *stage) string {
			s.called("HcnDeleteLoadBalancer", 1, time.Minute)
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
			s.Proxy.Kill()
			s.Must(s.Host.NextBoot(s.ctx))
			s.control("/reboot", fault{"keep": []string{"Namespace", "Attachment", "Forwarding"}})
			s.start()
			// Probes would find what is lost over TCP; nothing but a replacement finds it over UDP.
			s.Until("the DNS port to answer", 20*time.Second, func() error {
				_, err := s.client.Ask("udp", lab.ClusterAddr(s.web, 53), time.Second)
				return err
			})
		},
		unshown: "upstream's proxy deletes all load balancers at each start",
		cuts:    true,
	},
}

// restartInto restarts ours, which reads what it does not know yet, that is all at a start, with faults that are to
// hit n calls; they end 3 s later. Upstream's reads all the time.
func (s *stage) restartInto(n int) {
	s.Helper()
	if !s.ours {
		return
	}
	s.start()
	s.met(n, period)
	s.expire(3 * time.Second)
	s.faults()
}

// quiet ends the noise: what follows counts calls.
func (s *stage) quiet() {
	s.Helper()
	s.noisy = false
	s.faults()
	s.settle(period)
	if s.ours { // what it would have besides what the services ask may still be to come
		s.Idle(period)
	}
}

// foreignLB is made by another program of the host, for addresses that are no service's.
func (s *stage) foreignLB() {
	s.Helper()
	id, err := s.Host.HNS.Create(s.ctx, lab.LoadBalancer, "", balancer("198.51.100.250", s.near2, 0))
	s.Must(err)
	s.foreign = append(s.foreign, id)
}
