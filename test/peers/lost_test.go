package peers

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	lab "porthole.dev/porthole/test/proxylab"
)

const (
	ws2019 = 17763
	ws2022 = 20348
	ws2025 = 26100
)

// period is the time in which a full check comes around at the latest, with what it takes.
const period = 40 * time.Second

// lostObjects: HNS, or another program, deletes objects without a notification.
var lostObjects = []scenario{
	{
		id: "F-1", issue: "kubernetes/kubernetes#110674, #110849", what: "HNS loses every load balancer",
		inject:   func(s *stage) { s.lose(fault{"kind": "LoadBalancer"}) },
		upstream: func(s *stage) string { return s.differs(5, "missing") },
		within:   period, cuts: true, everyDay: true,
		ours: func(s *stage) { s.repaired() },
	},
	{
		id: "F-2", issue: "kubernetes/kubernetes#135802", what: "another program deletes one load balancer",
		inject: func(s *stage) {
			s.must(s.host.HNS.Delete(s.ctx, lab.LoadBalancer, s.lbs()[frontend(s.sticky, 6, 80)]))
		},
		upstream: func(s *stage) string { return s.differs(5, s.sticky.Spec.ClusterIP) },
		within:   period,
		ours:     func(s *stage) { s.repaired() },
	},
	{
		id: "F-7", issue: "kubernetes/kubernetes#112836", what: "a load balancer keeps dead backends",
		host: lab.HostOptions{Build: ws2025},
		// What is listed under its id is read in turn, all of it in ten minutes; with shorter checks sooner.
		before: func(s *stage) { s.flags = []string{"--iptables-sync-period=1s"} },
		inject: func(s *stage) {
			id := s.lbs()[frontend(s.sticky, 6, 80)]
			s.must(s.host.HNS.Modify(s.ctx, lab.LoadBalancer, id,
				fault{"HostComputeEndpoints": []string{s.client.Endpoint},
					"FrontendVIPs": []string{s.sticky.Spec.ClusterIP}, "SchemaVersion": fault{"Major": 2, "Minor": 0},
					"Flags": 1,
					"PortMappings": []fault{{"Protocol": 6, "InternalPort": targetPort, "ExternalPort": 80,
						"DistributionType": 2}}}))
		},
		upstream: func(s *stage) string { return s.differs(5, s.sticky.Spec.ClusterIP) },
		within:   period,
	},
	{
		id: "F-11", issue: "projectcalico/calico#5164",
		what:     "HNS crashes and comes back without load balancers and remote endpoints",
		inject:   func(s *stage) { s.hns(fault{"state": "running", "keep": "none"}) },
		upstream: func(s *stage) string { return s.differs(5, "missing") },
		within:   period, cuts: true,
	},
	{
		id: "F-11 pod", issue: "Azure/azure-container-networking#3498, #3343",
		what: "HNS loses the endpoint of a running pod",
		inject: func(s *stage) {
			s.lose(fault{"kind": "LocalEndpoint", "match": s.near2.Endpoint})
			s.foreign.Endpoints = []string{s.near1.Endpoint, s.client.Endpoint}
			// The node tells that the pod is without network; its endpoints go.
			s.slice(s.web, s.backends(s.near1, world.far[0], world.far[1])...)
			s.slice(s.sticky, s.backends(world.far[1])...)
		},
		unshown: "concerns the lost pod, not the proxy",
		within:  period, cuts: true,
		ours: func(s *stage) {
			d, err := s.host.HNS.Dump(s.ctx)
			s.must(err)
			for _, e := range d.Endpoints {
				if strings.Contains(fmt.Sprint(e["IpConfigurations"]), s.near2.Addr.String()) {
					s.t.Errorf("somebody made an endpoint for the pod: %v", e)
				}
			}
		},
	},
	{
		id: "F-12", issue: "Azure/azure-container-networking#4355, #4463, #4551",
		what: "the network has a new id under its old name",
		inject: func(s *stage) {
			s.lose(fault{"kind": "Network", "renew": true})
			s.foreign.Endpoints = nil
			far := s.backends(world.far[0], world.far[1])
			s.slice(s.web, far...) // the pods of the host are gone with their network
			s.slice(s.lb, far...)
			s.slice(s.sticky, far...)
		},
		unshown: "upstream takes a changed id like any other change",
		within:  period, cuts: true,
		ours: func(s *stage) { s.client = nil },
	},
	{
		id: "F-14", issue: "kubernetes/kubernetes#110674 on HNS 15.5",
		what: "a service changes whose load balancer was lost: Modify of a dead id",
		host: lab.HostOptions{Build: ws2025},
		inject: func(s *stage) {
			s.lose(fault{"kind": "LoadBalancer"})
			s.slice(s.sticky, s.backends(s.near1, world.far[1])...)
		},
		upstream: func(s *stage) string { return s.differs(5, s.sticky.Spec.ClusterIP) },
		within:   period, cuts: true,
	},
	{
		id: "F-20", issue: "microsoft/wcnscripts#24",
		what: "the rules of a load balancer are gone, the object is still listed",
		inject: func(s *stage) {
			s.lose(fault{"kind": "LoadBalancer", "planeOnly": true,
				"match": `"` + strings.ReplaceAll(s.sticky.Spec.ClusterIP, ".", `\.`) + `"`})
		},
		upstream: func(s *stage) string {
			s.syncs(5)
			_, err := s.client.Ask("tcp", lab.ClusterAddr(s.sticky, 80), 2*time.Second)
			if err == nil {
				return ""
			}
			return fmt.Sprintf("does nothing in 5 syncs: %v", err)
		},
		within: period,
		ours: func(s *stage) {
			s.must(wait.For(s.ctx, period, "the service to answer again", func(ctx ctx) error {
				_, err := s.client.Ask("tcp", lab.ClusterAddr(s.sticky, 80), time.Second)
				return err
			}))
		},
	},
	{
		id: "F-22", issue: "kubernetes/kubernetes#135146, kubernetes-sigs/sig-windows-tools#380",
		what: "remote endpoints that a dead proxy has left",
		inject: func(s *stage) {
			s.proxy.Kill()
			s.slice(s.web, s.backends(s.near1, s.near2)...)
			s.slice(s.lb, s.backends(s.near1)...)
			s.slice(s.sticky, s.backends(s.near2)...)
			s.start()
		},
		upstream: func(s *stage) string {
			s.must(wait.For(s.ctx, time.Minute, "the load balancers", func(ctx ctx) error {
				for _, d := range s.diff() {
					if !strings.HasPrefix(d, "remote endpoint") {
						return fmt.Errorf("%s", d)
					}
				}
				return nil
			}))
			return s.differs(5, "for nothing")
		},
		within: period, cuts: true, // the far pods have left the service
	},
	{
		id: "F-24", issue: "kubernetes/kubernetes#117783, microsoft/WSL#5514, Azure/AKS#1375",
		what: "no port is left for a new load balancer",
		inject: func(s *stage) {
			s.pool(fault{"free": 0})
			// A node port needs a block; cluster addresses with direct server return, such as that of DNS, do not.
			doc := lab.Service(s.name("late"), lab.Port("https", "tcp", 8443, targetPort))
			doc.Spec.Type = corev1.ServiceTypeNodePort
			late := s.apply(doc)
			s.slice(late, s.backends(s.near1)...)
			s.slice(s.service("after", lab.Port("http", "tcp", 80, targetPort)), s.backends(s.near2)...)
			s.must(wait.For(s.ctx, period, "all but the node port", func(ctx ctx) error {
				d, err := s.host.Diff(ctx, s.foreign)
				if err == nil && (len(d) != 1 ||
					!strings.HasPrefix(d[0], fmt.Sprintf("/6/%d ", late.Spec.Ports[0].NodePort))) {
					err = fmt.Errorf("%v", d)
				}
				return err
			}))
			s.reported("late", period)
			s.pool(fault{"free": 100})
		},
		unshown: "upstream does not count port blocks",
		within:  period,
	},
}

// pool changes the host's blocks of ports (POST /pool).
func (c *control) pool(what map[string]any) {
	c.t.Helper()
	c.must(c.host.HNS.Control(c.ctx, "POST", "/pool", what, nil))
}

// repaired checks that the proxy's metrics count a repair.
func (s *stage) repaired() {
	s.t.Helper()
	_, body, err := s.host.Get(s.ctx, lab.MetricsPort, "/metrics")
	s.must(err)
	for line := range strings.Lines(body) {
		if strings.Contains(line, "repaired") && !strings.HasPrefix(line, "#") &&
			!strings.HasSuffix(strings.TrimSpace(line), " 0") {
			return
		}
	}
	s.t.Error("no metric counts a repair")
}

// reported waits until the proxy's status names a service as failed.
func (s *stage) reported(service string, within time.Duration) {
	s.t.Helper()
	s.must(wait.For(s.ctx, within, "the status to name "+service, func(ctx ctx) error {
		_, body, err := s.host.Get(ctx, lab.MetricsPort, "/status")
		if err != nil {
			return err
		}
		if !strings.Contains(body, s.name(service)) || !strings.Contains(strings.ToLower(body), "0x803b0013") {
			return fmt.Errorf("status is %.400s", body)
		}
		return nil
	}))
}
