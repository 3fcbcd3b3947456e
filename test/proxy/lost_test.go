package proxy

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxy/lab"
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
		upstream: lasts("missing"),
		cuts:     true, everyDay: true,
		ours: (*stage).repaired,
	},
	{
		id: "F-2", issue: "kubernetes/kubernetes#135802", what: "another program deletes one load balancer",
		inject: func(s *stage) {
			s.Must(s.Host.HNS.Delete(s.ctx, lab.LoadBalancer, s.lbOf(s.sticky)))
		},
		upstream: stickyLasts,
		ours:     (*stage).repaired,
	},
	{
		id: "F-7", issue: "kubernetes/kubernetes#112836", what: "a load balancer keeps dead backends",
		host: lab.HostOptions{Build: ws2025},
		// What is listed under its id is read in turn, all of it in ten minutes; with shorter checks sooner.
		before: func(s *stage) { s.flags = []string{"--iptables-sync-period=1s"} },
		inject: func(s *stage) {
			doc := balancer(s.sticky.Spec.ClusterIP, s.client, directReturn)
			doc.PortMappings[0].DistributionType = 2
			s.Must(s.Host.HNS.Modify(s.ctx, lab.LoadBalancer, s.lbOf(s.sticky), doc))
		},
		upstream: stickyLasts,
	},
	{
		id: "F-11", issue: "projectcalico/calico#5164",
		what:     "HNS crashes and comes back without load balancers and remote endpoints",
		inject:   func(s *stage) { s.control("/service", fault{"state": "running", "keep": "none"}) },
		upstream: lasts("missing"),
		cuts:     true,
	},
	{
		id: "F-11 pod", issue: "Azure/azure-container-networking#3498, #3343",
		what: "HNS loses the endpoint of a running pod",
		inject: func(s *stage) {
			s.lose(fault{"kind": "LocalEndpoint", "match": s.near2.Endpoint})
			s.foreign = []string{s.near1.Endpoint, s.client.Endpoint}
			// The node tells that the pod is without network; its endpoints go.
			s.backed(s.web, s.near1, world.far[0], world.far[1])
			s.backed(s.sticky, world.far[1])
		},
		unshown: "concerns the lost pod, not the proxy",
		cuts:    true,
		ours: func(s *stage) {
			d, err := s.Host.HNS.Dump(s.ctx)
			s.Must(err)
			for _, e := range d.Endpoints {
				if strings.Contains(fmt.Sprint(e["IpConfigurations"]), s.near2.Addr.String()) {
					s.Errorf("somebody made an endpoint for the pod: %v", e)
				}
			}
		},
	},
	{
		id: "F-12", issue: "Azure/azure-container-networking#4355, #4463, #4551",
		what: "the network has a new id under its old name",
		inject: func(s *stage) {
			s.lose(fault{"kind": "Network", "renew": true})
			s.foreign = nil
			for _, service := range []*corev1.Service{s.web, s.lb, s.sticky} {
				s.backed(service, world.far[0], world.far[1]) // the pods of the host are gone with their network
			}
		},
		unshown: "upstream takes a changed id like any other change",
		cuts:    true,
		ours:    func(s *stage) { s.client = nil },
	},
	{
		id: "F-14", issue: "kubernetes/kubernetes#110674 on HNS 15.5",
		what: "a service changes whose load balancer was lost: Modify of a dead id",
		host: lab.HostOptions{Build: ws2025},
		inject: func(s *stage) {
			s.lose(fault{"kind": "LoadBalancer"})
			s.backed(s.sticky, s.near1, world.far[1])
		},
		upstream: stickyLasts,
		cuts:     true,
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
		ours: func(s *stage) {
			s.Until("the service to answer again", period, func() error {
				_, err := s.client.Ask("tcp", lab.ClusterAddr(s.sticky, 80), time.Second)
				return err
			})
		},
	},
	{
		id: "F-22", issue: "kubernetes/kubernetes#135146, kubernetes-sigs/sig-windows-tools#380",
		what: "remote endpoints that a dead proxy has left",
		inject: func(s *stage) {
			s.Proxy.Kill()
			s.backed(s.web, s.near1, s.near2)
			s.backed(s.lb, s.near1)
			s.backed(s.sticky, s.near2)
			s.start()
		},
		upstream: func(s *stage) string {
			s.differsOnlyIn("remote endpoint", time.Minute)
			return s.differs(5, "for nothing")
		},
		cuts: true, // the far pods have left the service
	},
	{
		id: "F-24", issue: "kubernetes/kubernetes#117783, microsoft/WSL#5514, Azure/AKS#1375",
		what: "no port is left for a new load balancer",
		inject: func(s *stage) {
			s.control("/pool", fault{"free": 0})
			// A node port needs a block; cluster addresses with direct server return, such as that of DNS, do not.
			doc := lab.Service(s.name("late"), lab.Port("https", "tcp", 8443, targetPort))
			doc.Spec.Type = corev1.ServiceTypeNodePort
			late := s.Apply(doc)
			s.backed(late, s.near1)
			s.serves("after", s.near2)
			s.Until("all but the node port", period, func() error {
				d := s.diff()
				if len(d) != 1 || !strings.HasPrefix(d[0], fmt.Sprintf("/6/%d ", late.Spec.Ports[0].NodePort)) {
					return fmt.Errorf("%v", d)
				}
				return nil
			})
			s.Until("the status to name the service as failed", period,
				s.Page(lab.MetricsPort, "/status", 200, late.Name, "0x803b0013"))
			s.control("/pool", fault{"free": 100})
		},
		unshown: "upstream does not count port blocks",
	},
}

// repaired checks that the proxy's metrics count a repair.
func (s *stage) repaired() {
	s.Helper()
	_, body, err := s.Host.Get(s.ctx, lab.MetricsPort, "/metrics")
	s.Must(err)
	for line := range strings.Lines(body) {
		if strings.Contains(line, "repaired") && !strings.HasPrefix(line, "#") &&
			!strings.HasSuffix(strings.TrimSpace(line), " 0") {
			return
		}
	}
	s.Error("no metric counts a repair")
}
