package matrix

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxylab"
)

// overlay is two hosts of one overlay network, with the proxy on the first.
//
//	outside ── router ── win1 (proxy): client, near ══vxlan══ win2: far
type overlay struct {
	*kinds
	other             *proxylab.Host
	client, near, far *proxylab.Pod
	source            netip.Addr

	web, local, elsewhere, inside, sticky *corev1.Service
}

const (
	webExternal, webIngress        = "198.51.100.1", "198.51.100.2"
	localIngress, elsewhereIngress = "198.51.100.3", "198.51.100.4"
)

// TestOverlay asks every kind of frontend on an overlay network, with direct server return and without. Backends see
// the pod where HNS returns directly, else the source address.
func TestOverlay(t *testing.T) {
	o := newOverlay(t)
	flags := []string{"--source-vip=" + o.source.String(), "--node-access", "--v=2"}
	t.Run("dsr true", func(t *testing.T) {
		o.run(t, append(flags, "--enable-dsr=true")...)
		o.ask(t, true)
	})
	t.Run("changes", o.changes)
	t.Run("a node that joins", o.joins)
	t.Run("restart", func(t *testing.T) { o.restart(t, append(flags, "--enable-dsr=true")...) })
	t.Run("dsr false", func(t *testing.T) {
		o.run(t, append(flags, "--enable-dsr=false")...)
		o.ask(t, false)
	})
}

func newOverlay(t *testing.T) *overlay {
	t.Helper()
	o := &overlay{kinds: newKinds(t, "phmo")}
	o.host = o.addHost(t, proxylab.HostOptions{Name: "win1", NetworkType: "Overlay"})
	o.other = o.addHost(t, proxylab.HostOptions{Name: "win2", NetworkType: "Overlay", NoWine: true})
	must(t, o.lab.JoinOverlay(t.Context(), o.host, o.other))
	o.source = o.host.Pods.Addr().Next().Next()

	for pod, of := range map[**proxylab.Pod]struct {
		host *proxylab.Host
		name string
	}{&o.client: {o.host, "client"}, &o.near: {o.host, "near"}, &o.far: {o.other, "far"}} {
		p, err := of.host.Pod(t.Context(), of.name, netip.Addr{})
		must(t, err)
		serveAt(t, p.Place)
		*pod = p
	}

	for _, ip := range []string{webExternal, webIngress, localIngress, elsewhereIngress} {
		must(t, o.lab.RoutePrefix(netip.PrefixFrom(netip.MustParseAddr(ip), 32), o.host.Place))
	}
	near, far := proxylab.On("win1", o.near.Addr), proxylab.On("win2", o.far.Addr)
	make := func(name string, change func(*corev1.Service), backends ...proxylab.Backend) *corev1.Service {
		s := proxylab.Service(name, proxylab.Port("http", "tcp", 80, kindsPort),
			proxylab.Port("http-udp", "udp", 80, kindsPort),
			proxylab.Port("dns", "udp", 53, kindsDNS), proxylab.Port("dns-tcp", "tcp", 53, kindsDNS))
		change(s)
		s = o.apply(t, s)
		o.slice(t, s, "-a", backends...)
		return s
	}

	both := append(near, far...)
	balanced := func(s *corev1.Service, ingress string, policy corev1.ServiceExternalTrafficPolicy) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, policy
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ingress}}
	}
	o.web = make("web", func(s *corev1.Service) {
		balanced(s, webIngress, corev1.ServiceExternalTrafficPolicyCluster)
		s.Spec.ExternalIPs = []string{webExternal}
	}, both...)

	o.local = make("local", func(s *corev1.Service) {
		balanced(s, localIngress, corev1.ServiceExternalTrafficPolicyLocal)
	}, both...)
	o.elsewhere = make("elsewhere",
		func(s *corev1.Service) { balanced(s, elsewhereIngress, corev1.ServiceExternalTrafficPolicyLocal) }, far...)
	o.inside = make("inside", func(s *corev1.Service) {
		policy := corev1.ServiceInternalTrafficPolicyLocal
		s.Spec.InternalTrafficPolicy = &policy
	}, both...)
	o.sticky = make("sticky", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
		both...)

	return o
}

// nodePortOf returns a service's node port at a node.
func nodePortOf(s *corev1.Service, port string, node netip.Addr) netip.AddrPort {
	for _, p := range s.Spec.Ports {
		if p.Name == port {
			return netip.AddrPortFrom(node, uint16(p.NodePort))
		}
	}
	return netip.AddrPort{}
}

// asked is a want with the protocol by which it is asked, "tcp" or "udp".
type asked struct {
	want
	network string
}

// String names the question in lists.
func (q asked) String() string { return q.what + " " + q.network }

// ask asks all questions.
func (o *overlay) ask(t *testing.T, dsr bool) {
	for _, q := range o.questions(dsr) {
		q.over(t, q.network)
	}
	for _, network := range []string{"tcp", "udp"} {
		if err := o.affinity(network, dsr); err != nil {
			t.Error(err)
		}
	}
}

// seenOf is what backends see of a pod that asks a cluster IP.
func (o *overlay) seenOf(dsr bool) netip.Addr {
	if dsr {
		return o.client.Addr
	}
	return o.source
}

func (o *overlay) questions(dsr bool) (list []asked) {
	pod := o.seenOf(dsr)
	at := func(ip string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(ip), 80) }
	both, dns := []string{"near", "far"}, []string{"near:dns", "far:dns"}
	client, node, outside := o.client.Place, o.host.Place, o.lab.Outside
	own := o.source // what they see of the node that asks a cluster IP
	if dsr {
		own = node.Addr
	}

	for _, w := range []want{
		{"cluster IP", client, proxylab.ClusterAddr(o.web, 80), both, pod},
		{"another port", client, proxylab.ClusterAddr(o.web, 53), dns, pod},
		{"cluster IP from the node", node, proxylab.ClusterAddr(o.web, 80), both, own},
		{"external IP", outside, at(webExternal), both, o.source},
		{"external IP from a pod", client, at(webExternal), both, o.source},
		{"external IP from the node", node, at(webExternal), both, o.source},
		{"ingress", outside, at(webIngress), both, o.source},
		{"ingress from a pod", client, at(webIngress), both, o.source},
		{"ingress from the node", node, at(webIngress), both, o.source},
		{"policy Local", outside, at(localIngress), []string{"near"}, outside.Addr},
		{"policy Local, no backend here", outside, at(elsewhereIngress), nil, netip.Addr{}},
		{"policy Local, cluster IP", client, proxylab.ClusterAddr(o.local, 80), both, pod},
		{"internal policy Local", client, proxylab.ClusterAddr(o.inside, 80), []string{"near"}, pod},
	} {
		list = append(list, asked{w, "tcp"}, asked{w, "udp"})
	}

	for _, s := range []struct {
		what, port string
		service    *corev1.Service
		from       proxylab.Place
		by         []string
		as         netip.Addr
	}{
		{"node port", "http", o.web, outside, both, o.source},
		{"node port from the node", "http", o.web, node, both, o.source},
		{"node port, policy Local", "http", o.local, outside, []string{"near"}, outside.Addr},
		{"node port, policy Local, no backend here", "http", o.elsewhere, outside, nil, netip.Addr{}},
	} {
		tcp, udp := nodePortOf(s.service, s.port, o.host.Addr), nodePortOf(s.service, s.port+"-udp", o.host.Addr)
		list = append(list, asked{want{s.what, s.from, tcp, s.by, s.as}, "tcp"},
			asked{want{s.what, s.from, udp, s.by, s.as}, "udp"})
	}
	return list
}

// affinity asks a service with client affinity: the backend that answers first answers always.
func (o *overlay) affinity(network string, dsr bool) error {
	at := proxylab.ClusterAddr(o.sticky, 80)
	first, err := o.client.Ask(network, at, 2*muchPatience)
	for range 2 {
		if err == nil {
			err = want{"affinity", o.client.Place, at, []string{first.Name}, o.seenOf(dsr)}.once(network)
		}
	}
	return err
}

// changes takes the backends of a service away one after the other, and gives them back.
func (o *overlay) changes(t *testing.T) {
	near, far := proxylab.On("win1", o.near.Addr), proxylab.On("win2", o.far.Addr)
	for _, step := range []struct {
		backends []proxylab.Backend
		by       []string
	}{{far, []string{"far"}}, {near, []string{"near"}}, {nil, nil}, {append(near, far...), []string{"near", "far"}}} {
		o.slice(t, o.web, "-a", step.backends...)
		o.settled(t)
		want{"cluster IP after a change", o.client.Place, proxylab.ClusterAddr(o.web, 80), step.by,
			o.client.Addr}.check(t)
		want{"ingress after a change", o.lab.Outside, netip.AddrPortFrom(netip.MustParseAddr(webIngress), 80), step.by,
			o.source}.check(t)
	}
}

// joins: flannel writes the way to a new node, and its pods are in use at once.
func (o *overlay) joins(t *testing.T) {
	third := o.addHost(t, proxylab.HostOptions{Name: "win3", NetworkType: "Overlay", NoWine: true})
	newer, err := third.Pod(t.Context(), "newer", netip.Addr{})
	must(t, err)
	serveAt(t, newer.Place)
	must(t, o.lab.JoinOverlay(t.Context(), o.host, third))
	o.slice(t, o.sticky, "-a", proxylab.On("win3", newer.Addr)...)
	o.settled(t)
	want{"a pod of a new node", o.client.Place, proxylab.ClusterAddr(o.sticky, 80), []string{"newer"},
		o.client.Addr}.check(t)
	o.behind(t, newer.Addr, third.Addr)
	o.slice(t, o.sticky, "-a", append(proxylab.On("win1", o.near.Addr), proxylab.On("win2", o.far.Addr)...)...)
	o.settled(t)
}

// behind checks which host HNS was told to be behind a pod of another host. The emulated HNS finds its way without.
func (o *overlay) behind(t *testing.T, pod, host netip.Addr) {
	t.Helper()
	d, err := o.host.HNS.Dump(t.Context())
	must(t, err)
	for _, e := range d.Endpoints {
		if text := fmt.Sprint(e["IpConfigurations"]); strings.Contains(text, "IpAddress:"+pod.String()+" ") {
			if policies := fmt.Sprint(e["Policies"]); !strings.Contains(policies,
				"ProviderAddress:"+host.String()+"]") {
				t.Errorf("%s is not behind %s: %s", pod, host, policies)
			}
			return
		}
	}
	t.Errorf("HNS has no endpoint for %s", pod)
}
