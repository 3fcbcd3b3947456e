package proxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/test/proxy/lab"
)

// awayAndBack: what else HNS and its other users do. The rows have no number in the catalogue.
var awayAndBack = []scenario{
	{
		id: "stop none", issue: "projectcalico/calico#5164",
		what:    "HNS is stopped for 5 s and comes back without load balancers and remote endpoints",
		inject:  func(s *stage) { s.restartHNS("none") },
		unshown: "upstream forgets everything while HNS is away, and so makes everything anew; F-11 is the quick restart that it does not see",
		cuts:    true,
	},
	{
		id: "stop half", issue: "projectcalico/calico#5164",
		what:     "HNS is stopped for 5 s and comes back with half of its objects",
		inject:   func(s *stage) { s.restartHNS("half") },
		upstream: lasts(""),
		cuts:     true,
	},
	{
		id: "agent half", issue: "kubernetes/kubernetes#135802",
		what: "another program deletes half of the load balancers",
		inject: func(s *stage) {
			for n, lb := range s.lbs() {
				// Not those of the open connections: they are those that the fault leaves alone.
				if n%2 == 1 && !slices.Contains(lb.Frontends(), frontend(s.web, 6, 80)) {
					s.Must(s.Host.HNS.Delete(s.ctx, lab.LoadBalancer, lb.ID))
				}
			}
		},
		upstream: lasts("missing"),
	},
}

func (s *stage) restartHNS(keep string) {
	s.Helper()
	s.control("/service", fault{"state": "stopped", "forMs": 5000, "keep": keep})
	s.backFrom()
}

// TestDNSFirst: after HNS has lost everything, the services on which all others depend come back before them.
func TestDNSFirst(t *testing.T) {
	t.Parallel()
	s := newStage(t, true, lab.HostOptions{Name: "dnsfirst"})
	s.noisy = false // a create that fails is tried again later, so that the order would say nothing
	for i := range 20 {
		s.serves(fmt.Sprintf("a%d", i), s.near1)
	}
	dns := lab.Service("kube-dns", lab.Port("dns", "udp", 53, targetPort), lab.Port("dns-tcp", "tcp", 53, targetPort))
	dns.Namespace, dns.Labels = "kube-system", map[string]string{"k8s-app": "kube-dns"}
	dns.Spec.ClusterIP = "10.96.0.10"

	dns = s.Apply(dns)
	s.backed(dns, s.near1, world.far[0])
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:""}}}`, lab.Label(s.Host.Name))
	api, err := world.Client.CoreV1().Services("default").
		Patch(s.ctx, "kubernetes", types.MergePatchType, []byte(label), metav1.PatchOptions{})
	s.Must(err)
	s.Must(s.Host.ApplySlice(s.ctx, &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes-seen-by-" + s.Host.Name, Namespace: "default",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Endpoints: lab.Slice(dns, "", s.backends(world.far[1])...).Endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: &api.Spec.Ports[0].Name, Port: new(int32(targetPort)),
			Protocol: &api.Spec.Ports[0].Protocol}}}))

	s.begin()
	first := map[string]bool{frontend(dns, 17, 53): true, frontend(dns, 6, 53): true, frontend(api, 6, 443): true}
	check := func(when string) {
		t.Helper()
		var order []string
		for _, lb := range s.lbs() {
			order = append(order, lb.Frontends()...)
		}
		for _, key := range order[:len(first)] {
			if !first[key] {
				t.Errorf("%s, %s came before DNS and the API service: %v", when, key, order)
				return
			}
		}
	}

	check("at the first start")
	s.control("/service", fault{"state": "running", "keep": "none"})
	s.settle(period)
	check("after a crash of HNS")
}

// TestFlapping takes all endpoints of a service away and brings them back, many times, while one delete in ten fails.
func TestFlapping(t *testing.T) {
	t.Parallel()
	s := newStage(t, true, lab.HostOptions{Name: "flap"})
	s.begin()
	s.noisy = false
	s.faults(fault{"function": "HcnDelete*", "action": "fail", "code": 0x80004005, "probability": 0.1, "seed": 3})
	times := 25
	if *thorough {
		times = 100
	}

	for i := range times {
		s.backed(s.sticky)
		if i%5 == 0 {
			s.settle(period) // seen, not merely overtaken
		} else {
			s.expire(time.Duration(rand.IntN(150)) * time.Millisecond) // anywhere in a pass
		}
		s.backed(s.sticky, s.near2, world.far[1], world.far[2])
		if i%5 == 2 {
			s.settle(period)
		} else {
			s.expire(time.Duration(rand.IntN(150)) * time.Millisecond)
		}
	}

	s.settle(period)
	s.finish()
}

// TestAPIAway cuts the proxy off from its API server. What HNS loses meanwhile comes back, and what changes meanwhile
// is taken up afterwards.
func TestAPIAway(t *testing.T) {
	t.Parallel()
	s := newStage(t, true, lab.HostOptions{Name: "apiaway"})
	s.flags = []string{"--iptables-sync-period=5s"}
	s.begin()
	away := 20 * time.Second
	if *thorough {
		away = 5 * time.Minute
	}
	s.Host.API.Cut()
	cut := time.Now()
	s.Must(s.Host.HNS.Delete(s.ctx, lab.LoadBalancer, s.lbOf(s.sticky)))
	s.settle(period)
	s.expire(away - time.Since(cut))
	if ended, err := s.Proxy.Ended(); ended {
		t.Fatalf("the proxy has ended: %v", err)
	}
	s.backed(s.sticky, s.near1, world.far[2])
	s.Must(s.Host.API.Restore())
	s.settle(90 * time.Second) // client-go looks again after at most 30 s, with what one pass may need
	s.finish()
}

// TestKill ends the proxy at random points while services change all the time.
func TestKill(t *testing.T) {
	t.Parallel()
	s := newStage(t, true, lab.HostOptions{Name: "kill"})
	s.begin()
	times := 8
	if *thorough {
		times = 100
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.churn(stop) }()
	for range times {
		s.expire(time.Duration(rand.IntN(1500)) * time.Millisecond)
		s.start()
	}
	close(stop)
	s.Must(<-done)
	s.settle(2 * period)
	s.finish()
}

// churn changes services until it is told to stop.
func (s *stage) churn(stop <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		pods := []*lab.Pod{s.near1, s.near2, world.far[0], world.far[1], world.far[2], world.far[3]}
		rand.Shuffle(len(pods), func(a, b int) { pods[a], pods[b] = pods[b], pods[a] })
		service := s.sticky
		if i%2 == 0 {
			service = s.lb
		}
		if err := s.Host.ApplySlice(s.ctx,
			lab.Slice(service, "-a", s.backends(pods[:rand.IntN(len(pods)+1)]...)...)); err != nil {
			return err
		}
	}
}

// finish checks that all answers and no open connection broke.
func (s *stage) finish() {
	s.Helper()
	s.backed(s.sticky, s.near2, world.far[1])
	s.backed(s.lb, s.near1, world.far[0])
	s.settle(period)
	s.answers()
	s.unbroken()
	s.Logf("HNS was called %v times", s.Stats().Programs[proxyName])
}
