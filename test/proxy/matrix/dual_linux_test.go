package matrix

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxy/lab"
)

const (
	fourIngress, sixIngress = "198.51.100.21", "2001:db8:51::21"
	localSix                = "2001:db8:51::22"
)

// dual is a host on an L2Bridge network and a Linux node, all with both families.
type dual struct {
	kinds
	client, near, far *lab.Pod

	web, six, local *corev1.Service
}

// TestDualStack asks services of two families, and of IPv6 alone, of a host that has both.
func TestDualStack(t *testing.T) {
	d := newDual(t, lab.HostOptions{Name: "win1", IPv6: true})
	for _, dsr := range []bool{true, false} {
		d.Sub(fmt.Sprintf("dsr %t", dsr), func() {
			d.run(fmt.Sprintf("--enable-dsr=%t", dsr))
			d.askFour(dsr)
			d.askSix(dsr)
		})
	}
	d.Sub("changes", d.changes)
}

// TestOneStackOnly: an HNS without dual stack serves what it can, and the service says what it cannot.
// Row 1.08.
func TestOneStackOnly(t *testing.T) {
	d := newDual(t, lab.HostOptions{Name: "win1", Build: 17763})
	d.run("--enable-dsr=true")
	for _, s := range []*corev1.Service{d.web, d.six} {
		d.Until("an event", 20*time.Second, d.Event(s, corev1.EventTypeWarning, "NoIPv6", ""))
	}
	d.askFour(true)
}

func newDual(t *testing.T, o lab.HostOptions) *dual {
	t.Helper()
	d := &dual{kinds: newKinds(t, "phmd")}
	d.AddHost(o)
	node, err := d.Lab.AddNode(t.Context(), "lin1")
	d.Must(err)
	d.client, d.near, d.far = d.pod(d.Host, "client"), d.pod(d.Host, "near"), d.pod(node, "far")
	for _, ip := range []string{fourIngress, sixIngress, localSix} {
		if addr := netip.MustParseAddr(ip); addr.Is4() || o.IPv6 {
			d.Must(d.Lab.RouteTo(addr, d.Host.Place))
		}
	}

	make := func(name string, policy corev1.IPFamilyPolicy, families []corev1.IPFamily, local bool,
		ingress ...string) *corev1.Service {
		s := lab.Service(name, lab.Port("http", "tcp", 80, mainPort), lab.Port("http-udp", "udp", 80, mainPort))
		s.Spec.Type, s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, &policy, families
		if local {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		for _, ip := range ingress {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		s = d.Apply(s)
		d.slices(s, d.near, d.far)
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
func (d *dual) slices(s *corev1.Service, pods ...*lab.Pod) {
	d.Helper()
	for _, family := range s.Spec.IPFamilies {
		var backends []lab.Backend
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
			backends = append(backends, lab.On(node, addr)...)
		}
		d.Slice(s, suffix, backends...)
	}
}

func (d *dual) askFour(dsr bool) {
	d.Helper()
	f := family{cluster: lab.ClusterAddrs(d.web, 80)[0], node: d.Host.Addr, ingress: netip.MustParseAddr(fourIngress),
		pod: d.Host.Addr}
	if dsr {
		f.pod = d.client.Addr
	}
	d.ask(d.web, f)
}

func (d *dual) askSix(dsr bool) {
	d.Helper()
	f := family{cluster: lab.ClusterAddrs(d.web, 80)[1], node: d.Host.Addr6, ingress: netip.MustParseAddr(sixIngress),
		pod: d.Host.Addr6}
	if dsr {
		f.pod = d.client.Addr6
	}
	d.ask(d.web, f)
	both := []string{"near", "far"}
	want{"IPv6 only, cluster IP", d.client.Place, lab.ClusterAddr(d.six, 80), both, f.pod}.check(d.T)
	d.nodePort(want{"IPv6 only, node port", d.Lab.Outside, netip.AddrPortFrom(d.Host.Addr6, 0), both, d.Host.Addr6},
		d.six)
	want{"policy Local", d.Lab.Outside, netip.AddrPortFrom(netip.MustParseAddr(localSix), 80), []string{"near"},
		d.Lab.Outside.Addr6}.check(d.T)
	d.nodePort(want{"policy Local, node port", d.Lab.Outside, netip.AddrPortFrom(d.Host.Addr6, 0), []string{"near"},
		d.Lab.Outside.Addr6}, d.local)
}

// family is a service's frontends of one address family; pod is what backends see of a pod that asks the cluster IP.
type family struct {
	cluster            netip.AddrPort
	node, ingress, pod netip.Addr
}

func (d *dual) ask(s *corev1.Service, f family) {
	d.Helper()
	both := []string{"near", "far"}
	want{"cluster IP", d.client.Place, f.cluster, both, f.pod}.check(d.T)
	for _, from := range []lab.Place{d.Lab.Outside, d.client.Place, d.Host.Place} {
		want{"ingress", from, netip.AddrPortFrom(f.ingress, 80), both, f.node}.check(d.T)
		d.nodePort(want{"node port", from, netip.AddrPortFrom(f.node, 0), both, f.node}, s)
	}
	want{"cluster IP from the node", d.Host.Place, f.cluster, both, f.node}.check(d.T)
}

// nodePort asks the node ports of TCP and UDP at the address that w has.
func (d *dual) nodePort(w want, s *corev1.Service) {
	d.Helper()
	node := w.at.Addr()
	w.at = nodePortOf(s, "http", node)
	w.over(d.T, "tcp")
	w.at = nodePortOf(s, "http-udp", node)
	w.over(d.T, "udp")
}

// changes: each family follows its own slice.
func (d *dual) changes() {
	d.Slice(d.web, "-6", lab.On("lin1", d.far.Addr6)...)
	d.settled()
	at := lab.ClusterAddrs(d.web, 80)
	want{"the family that changed", d.client.Place, at[1], []string{"far"}, d.Host.Addr6}.check(d.T)
	want{"the other family", d.client.Place, at[0], []string{"near", "far"}, d.Host.Addr}.check(d.T)
	d.Slice(d.web, "-4", lab.On("win1", d.near.Addr)...)
	d.Slice(d.web, "-6", lab.Backend{Addr: d.far.Addr6, Node: "lin1", NotReady: true})
	d.settled()
	want{"a family without backends", d.client.Place, at[1], nil, netip.Addr{}}.check(d.T)
	want{"the other family", d.client.Place, at[0], []string{"near"}, d.Host.Addr}.check(d.T)
}
