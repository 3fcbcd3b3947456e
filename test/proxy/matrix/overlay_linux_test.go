package matrix

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/test/proxy/lab"
)

// overlay is two hosts of one overlay network, with the proxy on the first.
//
//	outside ── router ── win1 (proxy): client, near ══vxlan══ win2: far
type overlay struct {
	kinds
	client, near, far *lab.Pod
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
	flags := []string{"--source-vip=" + o.source.String()}
	o.Sub("dsr true", func() {
		o.run(append(flags, "--enable-dsr=true")...)
		o.ask(true)
	})
	o.Sub("changes", o.changes)
	o.Sub("a node that joins", o.joins)
	o.Sub("restart", func() { o.restart(append(flags, "--enable-dsr=true")...) })
	o.Sub("dsr false", func() {
		o.run(append(flags, "--enable-dsr=false")...)
		o.ask(false)
	})
}

func newOverlay(t *testing.T) *overlay {
	t.Helper()
	o := &overlay{kinds: newKinds(t, "phmo")}
	o.AddHost(lab.HostOptions{Name: "win1", NetworkType: "Overlay"})
	other := o.AddHost(lab.HostOptions{Name: "win2", NetworkType: "Overlay", NoWine: true})
	o.Must(o.Lab.JoinOverlay(t.Context(), o.Host, other))
	o.source = o.Host.Pods.Addr().Next().Next()
	o.client, o.near, o.far = o.pod(o.Host, "client"), o.pod(o.Host, "near"), o.pod(other, "far")

	for _, ip := range []string{webExternal, webIngress, localIngress, elsewhereIngress} {
		o.Must(o.Lab.RoutePrefix(netip.PrefixFrom(netip.MustParseAddr(ip), 32), o.Host.Place))
	}
	near, far := lab.On("win1", o.near.Addr), lab.On("win2", o.far.Addr)
	make := func(name string, change func(*corev1.Service), backends ...lab.Backend) *corev1.Service {
		s := lab.Service(name, lab.Port("http", "tcp", 80, mainPort), lab.Port("http-udp", "udp", 80, mainPort),
			lab.Port("dns", "udp", 53, otherPort), lab.Port("dns-tcp", "tcp", 53, otherPort))
		change(s)
		s = o.Apply(s)
		o.Slice(s, "-a", backends...)
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
func (o *overlay) ask(dsr bool) {
	for _, q := range o.questions(dsr) {
		q.over(o.T, q.network)
	}
	for _, network := range []string{"tcp", "udp"} {
		if err := o.affinity(network, dsr); err != nil {
			o.Error(err)
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
	both, dns := []string{"near", "far"}, []string{"near:8081", "far:8081"}
	client, node, outside := o.client.Place, o.Host.Place, o.Lab.Outside
	own := o.source // what they see of the node that asks a cluster IP
	if dsr {
		own = node.Addr
	}

	for _, w := range []want{
		{"cluster IP", client, lab.ClusterAddr(o.web, 80), both, pod},
		{"another port", client, lab.ClusterAddr(o.web, 53), dns, pod},
		{"cluster IP from the node", node, lab.ClusterAddr(o.web, 80), both, own},
		{"external IP", outside, at(webExternal), both, o.source},
		{"external IP from a pod", client, at(webExternal), both, o.source},
		{"external IP from the node", node, at(webExternal), both, o.source},
		{"ingress", outside, at(webIngress), both, o.source},
		{"ingress from a pod", client, at(webIngress), both, o.source},
		{"ingress from the node", node, at(webIngress), both, o.source},
		{"policy Local", outside, at(localIngress), []string{"near"}, outside.Addr},
		{"policy Local, no backend here", outside, at(elsewhereIngress), nil, netip.Addr{}},
		{"policy Local, cluster IP", client, lab.ClusterAddr(o.local, 80), both, pod},
		{"internal policy Local", client, lab.ClusterAddr(o.inside, 80), []string{"near"}, pod},
	} {
		list = append(list, asked{w, "tcp"}, asked{w, "udp"})
	}

	for _, s := range []struct {
		what, port string
		service    *corev1.Service
		from       lab.Place
		by         []string
		as         netip.Addr
	}{
		{"node port", "http", o.web, outside, both, o.source},
		{"node port from the node", "http", o.web, node, both, o.source},
		{"node port, policy Local", "http", o.local, outside, []string{"near"}, outside.Addr},
		{"node port, policy Local, no backend here", "http", o.elsewhere, outside, nil, netip.Addr{}},
	} {
		tcp, udp := nodePortOf(s.service, s.port, o.Host.Addr), nodePortOf(s.service, s.port+"-udp", o.Host.Addr)
		list = append(list, asked{want{s.what, s.from, tcp, s.by, s.as}, "tcp"},
			asked{want{s.what, s.from, udp, s.by, s.as}, "udp"})
	}
	return list
}

// affinity asks a service with client affinity: the backend that answers first answers always.
func (o *overlay) affinity(network string, dsr bool) error {
	at := lab.ClusterAddr(o.sticky, 80)
	first, err := o.client.Ask(network, at, 2*muchPatience)
	for range 2 {
		if err == nil {
			err = want{"affinity", o.client.Place, at, []string{first.Name}, o.seenOf(dsr)}.once(network)
		}
	}
	return err
}

// changes takes the backends of a service away one after the other, and gives them back.
func (o *overlay) changes() {
	near, far := lab.On("win1", o.near.Addr), lab.On("win2", o.far.Addr)
	for _, step := range []struct {
		backends []lab.Backend
		by       []string
	}{{far, []string{"far"}}, {near, []string{"near"}}, {nil, nil}, {append(near, far...), []string{"near", "far"}}} {
		o.Slice(o.web, "-a", step.backends...)
		o.settled()
		want{"cluster IP after a change", o.client.Place, lab.ClusterAddr(o.web, 80), step.by,
			o.client.Addr}.check(o.T)
		want{"ingress after a change", o.Lab.Outside, netip.AddrPortFrom(netip.MustParseAddr(webIngress), 80), step.by,
			o.source}.check(o.T)
	}
}

// joins: flannel writes the way to a new node, and its pods are in use at once.
func (o *overlay) joins() {
	third := o.AddHost(lab.HostOptions{Name: "win3", NetworkType: "Overlay", NoWine: true})
	newer := o.pod(third, "newer")
	o.Must(o.Lab.JoinOverlay(o.Context(), o.Host, third))
	o.Slice(o.sticky, "-a", lab.On("win3", newer.Addr)...)
	o.settled()
	want{"a pod of a new node", o.client.Place, lab.ClusterAddr(o.sticky, 80), []string{"newer"},
		o.client.Addr}.check(o.T)
	o.behind(newer.Addr, third.Addr)
	o.Slice(o.sticky, "-a", append(lab.On("win1", o.near.Addr), lab.On("win2", o.far.Addr)...)...)
	o.settled()
}

// behind checks which host HNS was told to be behind a pod of another host. The emulated HNS finds its way without.
func (o *overlay) behind(pod, host netip.Addr) {
	o.Helper()
	d, err := o.Host.HNS.Dump(o.Context())
	o.Must(err)
	for _, e := range d.Endpoints {
		if text := fmt.Sprint(e["IpConfigurations"]); strings.Contains(text, "IpAddress:"+pod.String()+" ") {
			if policies := fmt.Sprint(e["Policies"]); !strings.Contains(policies,
				"ProviderAddress:"+host.String()+"]") {
				o.Errorf("%s is not behind %s: %s", pod, host, policies)
			}
			return
		}
	}
	o.Errorf("HNS has no endpoint for %s", pod)
}
