package kubeproxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/healthcheck"
	"porthole.dev/porthole/proxy/kernel"
	"porthole.dev/porthole/proxy/service"
)

// counted passes objects on to the tracker and counts the changes in the metrics.
type counted struct {
	*service.Tracker
	server *health.Server
}

func (c counted) SetService(s *corev1.Service) {
	c.server.ServiceChanged()
	c.Tracker.SetService(s)
}

func (c counted) RemoveService(namespace, name string) {
	c.server.ServiceChanged()
	c.Tracker.RemoveService(namespace, name)
}

func (c counted) SetSlice(s *discoveryv1.EndpointSlice) {
	c.server.SliceChanged()
	c.Tracker.SetSlice(s)
}

func (c counted) RemoveSlice(namespace, name string) {
	c.server.SliceChanged()
	c.Tracker.RemoveSlice(namespace, name)
}

// source is where a mode gets the services from.
type source struct {
	take    func() ([]service.State, bool)
	changed <-chan struct{}
}

// source starts watching the API and answering health checks of services. It ends with ctx.
func (p *parts) source(ctx context.Context, ranges service.SourceRanges) source {
	all := watchServices(ctx, p.client, p.Hostname, ranges,
		func(t *service.Tracker) networkapi.ServiceSink { return counted{t, p.server} })
	checks := healthcheck.New(p.checkOptions())
	p.background.Go(func() { checks.Run(ctx) })
	take := func() ([]service.State, bool) {
		p.server.Alive()
		states, complete := all.take()
		if !complete {
			return nil, false
		}
		p.server.Taken(states)
		for i := range states {
			checks.Set(states[i].Service, states[i].HealthCheck)
		}
		return states, true
	}
	return source{take: take, changed: all.feed.Changed()}
}

// checkOptions returns the options of the servers for the services' health checks. They listen where node ports are
// served.
func (p *parts) checkOptions() healthcheck.Options {
	o := healthcheck.Options{Ranges: p.NodePortRanges, Serving: p.server.Serving,
		Failed: func(name string, _ uint16, err error) {
			p.events.Event(name, true, health.ReasonHealthCheck, "node "+p.Hostname+": "+err.Error())
		}}
	if p.NodePortsPrimary {
		o.Ranges = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		o.Addresses = p.primaryAddresses
	}
	return o
}

// primaryAddresses returns the first IPv4 and the first IPv6 address of the node's object.
func (p *parts) primaryAddresses() ([]netip.Addr, error) {
	var out []netip.Addr
	families := map[bool]bool{}
	for _, text := range p.node.Addresses() {
		if a, err := netip.ParseAddr(text); err == nil && !families[a.Is6()] {
			families[a.Is6()] = true
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the node's addresses are not known yet")
	}
	return out, nil
}

// connect opens a TCP connection and hangs up.
func connect(ctx context.Context, to netip.AddrPort) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// probed returns a function that counts the results of probes in a metric.
func (p *parts) probed() func(result string) {
	probes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "porthole_proxy_probe_total",
		Help: "Connections to cluster IPs that show whether HNS serves what it lists, by result."}, []string{"result"})
	p.server.Registry().MustRegister(probes)
	for _, result := range []string{kernel.ProbeAnswered, kernel.ProbeLost, kernel.ProbeInconclusive} {
		probes.WithLabelValues(result)
	}
	return func(result string) { probes.WithLabelValues(result).Inc() }
}

// apiAddresses returns the address of the API server if the configuration gives an address, and nothing if it gives a
// name. master is a URL or host:port.
func apiAddresses(master string) []netip.Addr {
	host := master
	if u, err := url.Parse(master); err == nil && u.Host != "" {
		host = u.Host
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.Addr{a}
	}
	return nil
}

// nodeMAC returns the hardware address of the adapter through which this host reaches an address, as Windows writes
// it. It returns "" if it cannot find it.
func nodeMAC(towards []netip.Addr) string {
	for _, to := range towards {
		conn, err := net.Dial("udp", netip.AddrPortFrom(to, 9).String()) // sends nothing: it asks for a route
		if err != nil {
			continue
		}
		local, _ := conn.LocalAddr().(*net.UDPAddr)
		_ = conn.Close()
		if mac := macOf(local); mac != "" {
			return mac
		}
	}
	return ""
}

// macOf returns the MAC of the interface with that address, as HNS spells it; "" if there is none.
func macOf(local *net.UDPAddr) string {
	all, err := net.Interfaces()
	if err != nil || local == nil {
		return ""
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(local.IP) {
				return strings.ToUpper(strings.ReplaceAll(i.HardwareAddr.String(), ":", "-"))
			}
		}
	}
	return ""
}
