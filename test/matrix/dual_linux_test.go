package matrix

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxylab"
)

const (
	fourIngress, sixIngress = "198.51.100.21", "2001:db8:51::21"
	localSix                = "2001:db8:51::22"
)

// dual is a host on an L2Bridge network and a Linux node, all with both families.
type dual struct {
	*kinds
	client, near, far *proxylab.Pod

	web, six, local *corev1.Service
}

// TestDualStack asks services of two families, and of IPv6 alone, of a host that has both.
func TestDualStack(t *testing.T) {
	d := newDual(t, proxylab.HostOptions{Name: "win1", IPv6: true})
	for _, dsr := range []bool{true, false} {
		t.Run(fmt.Sprintf("dsr %t", dsr), func(t *testing.T) {
			d.run(t, fmt.Sprintf("--enable-dsr=%t", dsr), "--node-access", "--v=2")
			d.askFour(t, dsr)
			d.askSix(t, dsr)
		})
	}
	t.Run("changes", d.changes)
}

// TestOneStackOnly: an HNS without dual stack serves what it can, and the service says what it cannot.
// Row 1.08.
func TestOneStackOnly(t *testing.T) {
	d := newDual(t, proxylab.HostOptions{Name: "win1", Build: 17763})
	d.run(t, "--enable-dsr=true", "--node-access", "--v=2")
	d.problem(t, d.web, "NoIPv6")
	d.problem(t, d.six, "NoIPv6")
	d.askFour(t, true)
}

func newDual(t *testing.T, o proxylab.HostOptions) *dual {
	t.Helper()
	d := &dual{kinds: newKinds(t, "phmd")}
	d.host = d.addHost(t, o)
	node, err := d.lab.AddNode(t.Context(), "lin1")
	must(t, err)

	for name, pod := range map[string]**proxylab.Pod{"client": &d.client, "near": &d.near} {
		*pod, err = d.host.Pod(t.Context(), name, netip.Addr{})
		must(t, err)
		serveAt(t, (*pod).Place)
	}

	d.far, err = node.Pod("far", netip.Addr{})
	must(t, err)
	serveAt(t, d.far.Place)
	for _, ip := range []string{fourIngress, sixIngress, localSix} {
		if addr := netip.MustParseAddr(ip); addr.Is4() || o.IPv6 {
			must(t, d.lab.RouteTo(addr, d.host.Place))
		}
	}

	make := func(name string, policy corev1.IPFamilyPolicy, families []corev1.IPFamily, local bool,
		ingress ...string) *corev1.Service {
		s := proxylab.Service(name, proxylab.Port("http", "tcp", 80, kindsPort),
			proxylab.Port("http-udp", "udp", 80, kindsPort))
		s.Spec.Type, s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, &policy, families
		if local {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		for _, ip := range ingress {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		s = d.apply(t, s)
		d.slices(t, s, d.near, d.far)
		return s
	}

	six := []corev1.IPFamily{corev1.IPv6Protocol}
	d.web = make("web", corev1.IPFamilyPolicyRequireDualStack,
		[]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, false, fourIngress, sixIngress)
	d.six = make("six", corev1.IPFamilyPolicySingleStack, six, false)
	d.local = make("local", corev1.IPFamilyPolicySingleStack, six, true, localSix)
	return d
}

// slices gives a service these pods, one slice per family that it has.
func (d *dual) slices(t *testing.T, s *corev1.Service, pods ...*proxylab.Pod) {
	t.Helper()
	for _, family := range s.Spec.IPFamilies {
		var backends []proxylab.Backend
		suffix := "-4"
		for _, p := range pods {
			addr, node := p.Addr, "win1"
			if p == d.far {
				node = "lin1"
			}
			if family == corev1.IPv6Protocol {
				addr, suffix = p.Addr6, "-6"
				if !addr.IsValid() {
					continue // a pod of a host without IPv6
				}
			}
			backends = append(backends, proxylab.On(node, addr)...)
		}
		d.slice(t, s, suffix, backends...)
	}
}

func (d *dual) askFour(t *testing.T, dsr bool) {
	t.Helper()
	pod := d.host.Addr
	if dsr {
		pod = d.client.Addr
	}
	d.ask(t, d.web, family{cluster: proxylab.ClusterAddrs(d.web, 80)[0], node: d.host.Addr,
		ingress: netip.MustParseAddr(fourIngress), pod: pod})
}

func (d *dual) askSix(t *testing.T, dsr bool) {
	t.Helper()
	pod := d.host.Addr6
	if dsr {
		pod = d.client.Addr6
	}
	d.ask(t, d.web, family{cluster: proxylab.ClusterAddrs(d.web, 80)[1], node: d.host.Addr6,
		ingress: netip.MustParseAddr(sixIngress), pod: pod})
	both := []string{"near", "far"}
	want{"IPv6 only, cluster IP", d.client.Place, proxylab.ClusterAddr(d.six, 80), both, pod}.check(t)
	d.nodePort(t, want{"IPv6 only, node port", d.lab.Outside, netip.AddrPortFrom(d.host.Addr6, 0), both, d.host.Addr6},
		d.six)
	want{"policy Local", d.lab.Outside, netip.AddrPortFrom(netip.MustParseAddr(localSix), 80), []string{"near"},
		d.lab.Outside.Addr6}.check(t)
	d.nodePort(t, want{"policy Local, node port", d.lab.Outside, netip.AddrPortFrom(d.host.Addr6, 0), []string{"near"},
		d.lab.Outside.Addr6}, d.local)
}

// family is a service's frontends of one address family; pod is what backends see of a pod that asks the cluster IP.
type family struct {
	cluster            netip.AddrPort
	node, ingress, pod netip.Addr
}

func (d *dual) ask(t *testing.T, s *corev1.Service, f family) {
	t.Helper()
	both := []string{"near", "far"}
	want{"cluster IP", d.client.Place, f.cluster, both, f.pod}.check(t)
	for _, from := range []proxylab.Place{d.lab.Outside, d.client.Place, d.host.Place} {
		want{"ingress", from, netip.AddrPortFrom(f.ingress, 80), both, f.node}.check(t)
		d.nodePort(t, want{"node port", from, netip.AddrPortFrom(f.node, 0), both, f.node}, s)
	}
	want{"cluster IP from the node", d.host.Place, f.cluster, both, f.node}.check(t)
}

// nodePort asks the node ports of TCP and UDP at the address that w has.
func (d *dual) nodePort(t *testing.T, w want, s *corev1.Service) {
	t.Helper()
	node := w.at.Addr()
	w.at = nodePortOf(s, "http", node)
	w.over(t, "tcp")
	w.at = nodePortOf(s, "http-udp", node)
	w.over(t, "udp")
}

// changes: each family follows its own slice.
func (d *dual) changes(t *testing.T) {
	d.slice(t, d.web, "-6", proxylab.On("lin1", d.far.Addr6)...)
	d.settled(t)
	at := proxylab.ClusterAddrs(d.web, 80)
	want{"the family that changed", d.client.Place, at[1], []string{"far"}, d.host.Addr6}.check(t)
	want{"the other family", d.client.Place, at[0], []string{"near", "far"}, d.host.Addr}.check(t)
	d.slice(t, d.web, "-4", proxylab.On("win1", d.near.Addr)...)
	d.slice(t, d.web, "-6", proxylab.Backend{Addr: d.far.Addr6, Node: "lin1", NotReady: true})
	d.settled(t)
	want{"a family without backends", d.client.Place, at[1], nil, netip.Addr{}}.check(t)
	want{"the other family", d.client.Place, at[0], []string{"near"}, d.host.Addr}.check(t)
}
