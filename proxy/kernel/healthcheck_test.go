package kernel

import (
	"net/netip"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// checked runs a test on a host with its own endpoint and a pod. forward says whether health checks are forwarded.
func checked(t *testing.T, forward func() bool, test func(*bench)) {
	network := net1
	network.Subnets = []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"),
		Gateway: netip.MustParseAddr("10.244.2.1")}}
	onNetwork(t, ws2022, network, func(b *bench) {
		b.adjust = func(o *Options) { o.ForwardHealthChecks, o.HealthPort = forward(), 10256 }
		b.host.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
			*eps = append(*eps, local("10.244.2.2"), local("10.244.2.5"))
		})
	}, test)
}

// ingress returns port 80 of an ingress IP whose backend is the pod.
func ingress(name string) service.Frontend {
	f := clusterIP("203.0.113.9:80", "10.244.2.5:8080")
	f.Kind, f.Service = service.Ingress, name
	f.Backends[0].Local = true
	return f
}

// An ingress IP answers health checks at the host's own endpoint, here at the proxy's port.
func TestHealthChecksAreForwarded(t *testing.T) {
	forward := false
	checked(t, func() bool { return forward }, func(b *bench) {
		first := ingress("default/web")
		second := first
		second.Port = 443
		b.want(first, second)
		b.soon()
		const plain = "endpoint local 10.244.2.2 \"\"\nendpoint local 10.244.2.5 \"\"\n" +
			"lb 203.0.113.9 443/tcp->8080 10.244.2.5\nlb 203.0.113.9 80/tcp->8080 10.244.2.5\n"
		b.expectHost(plain)

		forward = true
		b.restart()
		b.soon()
		const own = "endpoint local 10.244.2.2 \"\"\nendpoint local 10.244.2.5 \"\"\nlb 203.0.113.9 10256/tcp->10256 10.244.2.2\n" +
			"lb 203.0.113.9 443/tcp->8080 10.244.2.5\nlb 203.0.113.9 80/tcp->8080 10.244.2.5\n"
		b.expectHost(own)

		b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			for _, lb := range *lbs {
				if lb.Ports[0].External == 10256 && (lb.DSR || lb.Ports[0].Flags != hns.PortVIPExternal) {
					t.Errorf("%+v", lb)
				}
			}
		})
		writes := b.writes()
		b.restart()
		b.soon()
		if n := b.writes(); n != writes {
			t.Errorf("%d writes after a restart", n-writes)
		}

		b.want()
		b.soon()
		b.expectHost("endpoint local 10.244.2.2 \"\"\nendpoint local 10.244.2.5 \"\"\n")
	})
}

// Services that share an ingress IP share the port of its health checks. It stays when the first of them is deleted.
func TestHealthCheckIsInherited(t *testing.T) {
	checked(t, func() bool { return true }, func(b *bench) {
		first := ingress("default/first")
		second := first
		second.Service, second.Port = "default/second", 443
		b.want(first)
		b.soon()
		b.want(first, second)
		b.soon()
		const pods = "endpoint local 10.244.2.2 \"\"\nendpoint local 10.244.2.5 \"\"\n"
		writes := b.writes()
		b.remove(first.Service)
		b.soon()
		b.expectHost(pods + "lb 203.0.113.9 10256/tcp->10256 10.244.2.2\nlb 203.0.113.9 443/tcp->8080 10.244.2.5\n")
		if n := b.writes() - writes; n != 1 {
			t.Errorf("%d writes, want one: the load balancer of the first service goes", n)
		}
		b.remove(second.Service)
		b.soon()
		b.expectHost(pods)
	})
}
